"""Stage 5: from a query to cited snippets."""
