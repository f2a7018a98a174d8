"""Batch APIs of vendors: jobs are recorded, submitted, polled and downloaded."""
