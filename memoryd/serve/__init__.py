"""Stage 6: the Unix socket, its connections and the operations they call."""
