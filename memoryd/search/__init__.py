"""Stage 5: query to cited snippets. Pure where there is no I/O."""
