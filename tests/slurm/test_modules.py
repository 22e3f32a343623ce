"""Environment modules on the cluster's nodes: what they set reaches the tasks of other nodes, too.

The `module` command is Debian's own (Environment Modules); no script inherits it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.slurm.test_shapes import needs, shape
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.extended]


def submitted(user: User, **batch: Any) -> tuple[int, str]:
    """Run a task on each of two nodes where there is a module; return the exit code and the log."""
    modules = user.directory / "modules"
    (modules / "hello").mkdir(parents=True)
    (modules / "hello" / "1.0").write_text('#%Module1.0\nsetenv GREETING {it\'s "me"}\n')
    keys = {
        "framework": "mpi",
        "environment": shape(needs(cpu=9), 1),
        "run": {"cmd": 'echo "$HPCDIST_NODE says $GREETING"'},
        "batch": batch,
    }
    file = user.write("hello", keys)
    done = user.hpcdist("submit", file, "--wait", env={"MODULEPATH": str(modules)})
    return done.returncode, user.log("hello-1")


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_module_is_there_on_all_nodes(user: User, launcher: str) -> None:
    code, log = submitted(user, launcher=launcher, modules=["hello"])
    said = sorted(line.partition(": ")[2] for line in log.splitlines() if " says " in line)
    assert (code, said) == (0, ['0 says it\'s "me"', '1 says it\'s "me"']), log


def test_a_module_that_is_not_there(user: User) -> None:
    code, log = submitted(user, modules=["hello/2.0"])
    assert (code, f"hpcdist: 'module load hello/2.0' failed ({user.directory}/hello.yml:" in log) == (
        86,
        True,
    ), log
