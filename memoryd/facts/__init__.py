"""Facts: short statements beside the notes, found by their meaning."""
