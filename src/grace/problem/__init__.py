"""What is asked of a row: the space it may move in, the goal, the settings, and further requirements."""

METHOD_NAMES = ("search", "gradient", "local", "nearest", "deepfool")
"""The methods of `grace.methods.METHODS`; here, so that the command knows them without importing torch."""
