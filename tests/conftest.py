"""No test reads the config of whoever runs it."""

from __future__ import annotations

import os

os.environ["HPCDIST_CONFIG"] = ""  # for the processes that tests start as well
