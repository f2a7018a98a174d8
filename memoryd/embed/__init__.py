"""Stage 3: chunks to vectors, embedded by a pool of workers for one provider."""
