"""The hostfile of Gradient in a command."""

from __future__ import annotations

import pytest

from hpcdist.experiment.launch_options import with_hostfile


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("cat /generated/hostfile", 'cat "$HPCDIST_HOSTFILE"'),
        ("x --hosts=/generated/hostfile", 'x --hosts="$HPCDIST_HOSTFILE"'),
        ("bash -c 'cat /generated/hostfile'", "bash -c 'cat '\"$HPCDIST_HOSTFILE\"''"),
        ('echo "a /generated/hostfile"', 'echo "a $HPCDIST_HOSTFILE"'),
        (
            "cat /generated/hostfile.bak /generated/hostfiles",
            "cat /generated/hostfile.bak /generated/hostfiles",
        ),
        ("echo \\' /generated/hostfile", 'echo \\\' "$HPCDIST_HOSTFILE"'),
        ("echo 'half /generated/hostfile", 'echo \'half "$HPCDIST_HOSTFILE"'),
    ],
)
def test_the_hostfile_is_hpcdists_own(text: str, ours: str) -> None:
    assert with_hostfile(text) == ours
