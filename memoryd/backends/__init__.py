"""Back ends that answer the searches of an agent: the built-in index, or another program."""
