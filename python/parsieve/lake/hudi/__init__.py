"""Read Hudi tables."""
