"""What is asked of a row: the space it may move in, the goal, the settings, and further requirements."""
