"""``hpcdist exec`` beside the processes of a job on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.process import until
from tests.wording import Wording

from .conftest import RANKS, Hpcdist, run_real


@pytest.fixture
def real() -> Hpcdist:
    """Run a command line as its user does: what it starts has its files."""
    return run_real


@pytest.fixture
def job(hpcdist: Hpcdist, folder: Path) -> Iterator[str]:
    """A run of three ranks, which have begun and wait."""
    text = RANKS.replace('echo "rank $RANK of $WORLD_SIZE"', "touch up.$RANK; sleep 1000")
    (folder / "ranks.yml").write_text(text)
    assert hpcdist("submit", "ranks.yml").code == 0
    until(lambda: len([*folder.glob("up.*")]) == 3, "all ranks to begin")
    yield "ranks-1"
    hpcdist("cancel", "ranks-1")


def test_a_command_gets_the_variables_of_the_rank_and_its_exit_code_counts(job: str, real: Hpcdist) -> None:
    for rank in ("0", "1"):
        script = 'echo "$RANK $WORLD_SIZE"; cat; kill -0 "${HPCDIST_PIDS%% *}" && exit 9'
        done = real("exec", job, "--rank", rank, "--", "bash", "-c", script, stdin="a b")
        assert (done.code, done.out, done.err) == (9, f"{rank} 3\na b", "")


def test_without_a_rank_it_is_the_first_one_of_the_first_node(
    job: str, real: Hpcdist, hpcdist: Hpcdist
) -> None:
    done = real("exec", job, "--", "bash", "-c", "exec printenv HPCDIST_LOCAL_RANK")
    assert (done.code, done.out in ("0\n", "1\n", "2\n")) == (0, True)
    assert hpcdist("exec", job, "--rank", "0", "--node", "0", "--", "true").code == 2
    done = hpcdist("exec", job, "--rank", "7", "--", "true")
    assert (done.code, done.err) == (2, "error: ranks-1 has no rank 7; it has ranks 0 to 2\n")


def test_a_job_that_has_ended_is_refused(job: str, hpcdist: Hpcdist, wording: Wording) -> None:
    assert hpcdist("cancel", job).code == 0
    hpcdist("wait", job)
    done = hpcdist("exec", job, "--", "true")
    assert done.code == 2
    wording(done.err)
