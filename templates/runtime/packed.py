"""A worker of packed trials, which each task of a job becomes: ``python3 -ISB FILE TEXT [processes]``."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # -I leaves it out

from supervisor.packed import main

sys.exit(main(sys.argv[1:], os.environ))
