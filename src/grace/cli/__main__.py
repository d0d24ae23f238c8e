"""`python -m grace.cli` is the command `grace`."""

from grace.cli import main

main()
