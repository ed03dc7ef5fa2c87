"""SQL conditions: the syntax tree of sqlglot, the columns and literals in it, and its meaning."""
