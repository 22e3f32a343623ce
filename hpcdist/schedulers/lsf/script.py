"""How a script for LSF wants to be given to bsub: it says so itself, to its user and to hpcdist."""

from __future__ import annotations

from typing import Final

BY_STDIN: Final = "# bsub reads it from its standard input: bsub <job.sh"
BY_NAME: Final = "# bsub reads it by its name: bsub job.sh"
