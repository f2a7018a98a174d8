"""Unix socket, client connections and service manager."""
