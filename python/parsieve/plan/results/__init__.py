"""Read the rows of a plan, and hand them to engines."""
