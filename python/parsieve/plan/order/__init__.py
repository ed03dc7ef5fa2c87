"""Plans of the first rows in an order."""
