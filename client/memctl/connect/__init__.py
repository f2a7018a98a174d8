"""The commands `memctl connect` and `memctl disconnect`: memoryd as the memory of other agents."""
