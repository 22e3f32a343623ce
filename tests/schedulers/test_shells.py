"""The commands that wait for an allocation with a shell; all but Slurm's are by their manuals."""

from __future__ import annotations

import pytest

from hpcdist.plan.values import Directive, Origin
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import ShellRequest, Submission

SUBMISSION = Submission("/r/a b/job.sh", "/r/a b", "t0")


def line(flag: str, value: str | None = None, group: int = 0) -> Directive:
    return Directive(flag=flag, value=value, origin=Origin("default", "x"), group=group)


def argv(name: str, *directives: Directive, terminal: bool = True) -> tuple[str, ...]:
    command = schedulers.get(name).shell(ShellRequest(SUBMISSION, directives, terminal))
    assert command
    return command.argv


STEP = ("srun", "--interactive", "--preserve-env", "--mpi=none")


def test_slurm_without_what_only_sbatch_knows() -> None:
    asked = (line("--nodes", "2"), line("--no-requeue"), line("--export", "ALL"), line("--exclusive"))
    assert argv("slurm", *asked) == (
        *("salloc", "--comment=hpcdist:t0", "--nodes=2", "--exclusive"),
        *(*STEP, "--pty", "bash", "/r/a b/job.sh"),
    )
    assert argv("slurm", terminal=False) == ("salloc", "--comment=hpcdist:t0", *STEP, "bash", "/r/a b/job.sh")


def test_components_stand_behind_colons() -> None:
    asked = (line("--nodes", "1"), line("--nodes", "2", 1), line("--gres", "gpu:1", 1))
    assert argv("slurm", *asked)[2:6] == ("--nodes=1", ":", "--nodes=2", "--gres=gpu:1")


@pytest.mark.parametrize(
    ("name", "directives", "terminal", "expected"),
    [
        ("lsf", [line("-J", "a"), line("-x")], True, "bsub -Is -Jd hpcdist:t0 -J a -x bash"),
        ("lsf", [line("-W", "10")], False, "bsub -I -Jd hpcdist:t0 -W 10 bash"),
        ("flux", [line("--nodes", "2")], True, "flux alloc --setattr=user.hpcdist=hpcdist:t0 --nodes=2 bash"),
        (
            "sge",
            [line("-l h_rt", "60"), line("-pe", "mpi 8"), line("-r", "n")],
            True,
            "qrsh -now no -verbose -cwd -pty yes -ac hpcdist=t0 -l h_rt=60 -pe mpi 8 bash",
        ),
    ],
)
def test_others(name: str, directives: list[Directive], terminal: bool, expected: str) -> None:  # noqa: FBT001
    assert argv(name, *directives, terminal=terminal) == (*expected.split(), "/r/a b/job.sh")


def test_pbs_starts_a_login_shell_alone() -> None:
    pbs, request = schedulers.get("pbs"), ShellRequest(SUBMISSION, (line("-q", "x"),), terminal=True)
    assert pbs.shell(request) is None
    words = pbs.login_shell(request).argv
    assert words == (
        *("qsub", "-W", "block=false", "-I"),
        *("-v", "HPCDIST_TOKEN=hpcdist:t0", "/r/a b/job.sh"),
    )
