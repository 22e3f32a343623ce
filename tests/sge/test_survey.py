"""A site file made on the grid by `hpcdist sites init` runs an example as it is."""

from __future__ import annotations

import pytest

from tests.sge.test_training import accuracy
from tests.sge.users import GridUser

pytestmark = [pytest.mark.real, pytest.mark.extended]


def test_the_quickstart_runs_with_the_site_that_init_writes(user: GridUser) -> None:
    made = user.hpcdist("sites", "init", "here", "--scheduler", "sge", "-o", "here.yaml")
    assert (made.returncode, made.stderr) == (0, "")
    checked = user.hpcdist("sites", "check", "here.yaml")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "ok: here.yaml\n", "")
    done = user.hpcdist("submit", "examples/quickstart.yml", "--site", "here.yaml", "--wait")
    log = user.log("quickstart-1")
    assert done.returncode == 0, done.stderr + log
    assert accuracy(log) > 0.9
