"""What a submitted script starts: ``python3 -ISB RUN/runtime RUN job.sh NEEDS``."""

import os
import sys
from contextlib import suppress

from supervisor.main import main

if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2])
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(code)  # where output cannot be written, Python itself would end with 120
