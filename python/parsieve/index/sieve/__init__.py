"""Build, update, compact and query the Sieve index."""
