"""Stage 3: chunks to vectors, by a pool of workers in front of one provider."""
