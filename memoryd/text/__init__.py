"""Pure text functions: tokens, token estimates, masking of secrets."""
