"""Stage 4: one SQLite file per agent, one writer, a pool of readers, vectors in memory."""
