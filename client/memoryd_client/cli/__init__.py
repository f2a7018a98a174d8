"""What `memctl` is made of; its beginning is `memoryd_client.memctl`."""
