"""Independent models of parsieve's results."""
