"""What is asked of a row: the space it may move in, the goal, the settings, and further requirements."""

METHODS = ("search", "gradient", "local", "nearest", "deepfool")
"""The names of the methods in `grace.methods`."""
