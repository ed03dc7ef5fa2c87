"""Which files and row groups can hold a matching row: evidence, the planner that hears it, verdicts."""
