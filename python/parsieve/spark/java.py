"""Moved to `parsieve.spark.runtime.java`; this name works for one more release."""

from parsieve.spark.runtime.java import *  # noqa: F403
