"""Features and their domains, rows as numbers, and reading tables."""
