"""Read-only diagnosis of the machine, the daemon, the index and the files on disk."""
