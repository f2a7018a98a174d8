"""Rebuilding an index beside the live one."""
