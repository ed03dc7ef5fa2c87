"""Translate Spark's filters into predicates of the table."""
