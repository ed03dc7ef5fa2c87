"""Store files that are written once, in a local folder or an object store."""
