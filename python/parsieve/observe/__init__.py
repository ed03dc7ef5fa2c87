"""Show operators what parsieve does: counters, log lines and spans."""
