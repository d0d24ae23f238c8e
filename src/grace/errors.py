"""The one exception a user of GRACE has to catch."""


class GraceError(ValueError):
    """Bad input; the message names the culprit and the remedy in one line."""
