"""No test depends on how it is run: neither on a config, nor on signals that a shell has ignored."""

from __future__ import annotations

import os
import signal

os.environ["HPCDIST_CONFIG"] = ""  # for the processes that tests start as well

# A shell has its background jobs ignore INT, which everything that tests start would then do too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
