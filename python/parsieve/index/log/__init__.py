"""Commit, publish, expire and collect the versions of an index."""
