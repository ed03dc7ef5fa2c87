"""What parsieve does, for operators: counters, log lines and spans."""
