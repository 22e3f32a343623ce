"""``python -m hpcdist``: the command line."""

from hpcdist.cli import main

main(prog_name="hpcdist")
