"""Running verbs of hpcdist in this process, with a bound on their time."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping
from typing import Final, NamedTuple

from click.testing import CliRunner

from hpcdist.cli import main

SECONDS: Final = 6.0
"""So much time of the processor a verb may take on any input (a plan takes about 0.05 s)."""


class _TooLong(BaseException):
    """Raised in the midst of a verb; no ``except Exception`` of it may keep it."""


class Ended(NamedTuple):
    """How a verb ended; ``fault`` says what no verb may do: fail by itself, or take too long."""

    code: int
    out: str
    err: str
    fault: str = ""


def run(*words: str, environment: Mapping[str, str]) -> Ended:
    """Run a verb with these variables besides."""

    def stop(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        result = CliRunner().invoke(main, words, env=environment)
    except _TooLong:
        return Ended(1, "", "", f"took more than {SECONDS:.0f} s")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    out = result.stdout_bytes.decode(errors="surrogateescape")
    return Ended(
        result.exit_code, out, result.stderr, _fault(result.exit_code, result.exception, result.stderr)
    )


def _fault(code: int, error: BaseException | None, err: str) -> str:
    if error is not None and not isinstance(error, SystemExit):
        return "raised " + "".join(traceback.format_exception(error))
    if "Traceback" in err:
        return "printed a traceback"
    return f"exit code {code}: {err.strip()}" if code not in {0, 2, 3, 4} else ""
