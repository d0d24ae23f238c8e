"""The one exception a user of GRACE has to catch."""

MOST = 1200  # characters of a message; names and values from files may be of any length


class GraceError(ValueError):
    """Bad input; the message names the culprit and the remedy in one line."""

    def __init__(self, message: str = "") -> None:
        line = " ".join(message.splitlines())
        super().__init__(line if len(line) <= MOST else f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}")
