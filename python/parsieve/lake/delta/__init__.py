"""Read Delta Lake tables."""
