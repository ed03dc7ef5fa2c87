"""Times in predicates: moments, days and clocks, with their zones, and the times of numpy."""
