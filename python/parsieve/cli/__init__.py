"""The command line: parse, call, print. Data goes to standard output, everything else to standard error."""

from parsieve.cli.main import main

__all__ = ["main"]
