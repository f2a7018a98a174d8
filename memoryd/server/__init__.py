"""The Unix socket, its connections and the service manager."""
