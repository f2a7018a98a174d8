"""Wire protocol: frames, their codec and the requests of both clients."""
