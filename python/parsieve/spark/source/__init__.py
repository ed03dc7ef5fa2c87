"""Implement the data source `spark.read.format("parsieve")`."""
