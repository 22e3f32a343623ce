"""How one knows that a batch system is set up: the table, which imports none, is what the schedulers say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hpcdist.base.command import Completed
from hpcdist.schedulers import INSTALLATIONS, schedulers
from hpcdist.testing import MISSING, failed


def test_the_table_is_that_of_the_schedulers() -> None:
    own = {scheduler.name: scheduler.installation for scheduler in schedulers.objects()}
    assert own == {**INSTALLATIONS, "local": None}


def test_every_built_in_scheduler_but_that_of_this_machine_is_a_batch_system() -> None:
    assert [item.name for item in schedulers.objects() if not item.is_batch_system] == ["local"]


def test_the_table_imports_no_scheduler() -> None:
    program = "import sys; import hpcdist.schedulers; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {f"hpcdist.schedulers.{name}" for name in schedulers.names()} & {*done.stdout.split()}


@pytest.mark.parametrize(
    ("answer", "confirms"),
    [
        (failed(1, "slurm_load_ctl_conf error: Unable to contact slurm controller"), True),
        (failed(1, "scontrol: fatal: Could not establish a configuration source"), False),
        (MISSING, True),
    ],
)
def test_only_a_clear_answer_denies_an_installation(answer: Completed, confirms: bool) -> None:  # noqa: FBT001
    assert INSTALLATIONS["slurm"].is_confirmed_by(answer) is confirms
