"""Build and maintain indexes and filters on Spark."""
