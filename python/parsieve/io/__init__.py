"""Read files and objects, replace them safely, and fetch byte ranges."""
