"""QMD: the program of the same name as a back end, run and asked as a child of the daemon."""
