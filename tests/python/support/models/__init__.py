"""Independent models that tests compare parsieve with."""
