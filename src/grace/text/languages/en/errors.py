"""English errors: the program's own words."""

from collections.abc import Mapping

ERRORS: Mapping[str, str] = {}
