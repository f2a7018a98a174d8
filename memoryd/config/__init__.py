"""Settings: the schema, the file, validation and registered workspaces."""
