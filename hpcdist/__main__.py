"""``python -m hpcdist`` and the installed program: the command line, whose Ctrl-C is an exit code at once."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

_INTERRUPTED = 130
"""``errors.ExitCode.INTERRUPTED``, which is not imported yet."""


def program() -> NoReturn:
    """Run the command line; until its modules are imported, Ctrl-C ends the process by that exit code."""
    obeys = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored: `nohup`, `&`
    if obeys:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from hpcdist import cli

    try:
        if obeys:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli.program()
    except KeyboardInterrupt:  # before the boundary that catches it, or behind it
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    program()
