"""Compares disk, index and vectors, and checks all that memoryd needs; changes nothing."""
