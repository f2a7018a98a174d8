"""Request and result structs, one module per group of operations."""
