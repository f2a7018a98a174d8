"""Detection and repair of a corrupt index."""
