"""Stage 4: one SQLite file per agent with one writer, a reader pool and vectors in memory."""
