"""The command `memctl mcp`: an MCP server on standard input and output."""
