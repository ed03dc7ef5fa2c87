"""The index of a table: versions of it in a store, built from a lake and asked by a planner."""
