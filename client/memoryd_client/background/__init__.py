"""The daemon as a process: started, stopped, found, and its log."""
