"""Filter one DataFrame by the keys of another."""
