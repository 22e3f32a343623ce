"""``python -m hpcdist``: the command line."""

from hpcdist.cli import program

program()
