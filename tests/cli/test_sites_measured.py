"""``hpcdist sites check --measured``: what the doctor's job measured comes into the site file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec import structs

from hpcdist import __version__
from hpcdist.checks.finding import AllReduce, Connectivity, Pair, TaskRecord
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.checks.hosts import GOOD
from tests.wording import Wording

from .conftest import TOY, Hpcdist

PATH: Final = ("--site-path", "sites")
PAIRS: Final = (Pair(0, 1, 10.123), Pair(0, 2, 10.0), Pair(1, 2, 10.0))
SECTION: Final = f"""\
measured:
- library: mpi
  date: '2026-11-24'
  nodes: 3
  pair: 10.1
  all_reduce: 9.0
  versions:
    hpcdist: {__version__}
    mpi: '4.1'
"""


def ran(folder: Path, site: str = "toy", **changes: object) -> None:
    """Leave a run of the doctor behind."""
    directory = rundir.create(folder / "runs", "doctor")
    record = Record(directory.name, "t", site, "slurm", "d", "2026-11-24T01:02:03+00:00")
    rundir.save(directory, structs.replace(record, phase=Phase.SUBMITTED, job_id="7"))
    found = AllReduce(
        "mpi4py", "MPI 4.1", "mpi", ranks=3, bytes=27 << 20, correct=True, seconds=(27 << 20) / 6.75e9,
        pairs=PAIRS, versions={"mpi": "4.1"},
    )  # fmt: skip
    names: dict[str, tuple[str, ...]] = dict.fromkeys(("n1", "n2", "n3"), ())
    task = TaskRecord(GOOD, Connectivity(0, 0, names, ""), (structs.replace(found, **changes),))
    (directory.path / "outputs").mkdir()
    (directory.path / "outputs/task.0.json").write_bytes(msgspec.json.encode(task))


def test_the_last_measurement_of_the_site_replaces_the_section(hpcdist: Hpcdist, folder: Path) -> None:
    file = folder / "sites/toy.yaml"
    other = "- {library: nccl, date: '2026-01-01', nodes: 2, pair: 90.0}\n"
    old = "- {library: mpi, date: '2026-01-01', nodes: 2, pair: 1.0}\n"
    file.write_text(f"# ours\n{TOY}measured: # here\n{old}{other}\n# the end\nnotes: [one]\n")
    ran(folder)
    ran(folder, site="other")
    ran(folder, error="it did not finish")
    ran(folder, correct=False)
    result = hpcdist("sites", "check", "toy", "--measured", *PATH)
    assert (result.code, result.out) == (0, f"ok: {file}\n")
    assert f"note: {file}: `measured` is that of doctor-1\n" in result.err
    kept = "- library: nccl\n  date: '2026-01-01'\n  nodes: 2\n  pair: 90.0\n"
    assert file.read_text() == f"# ours\n{TOY}{SECTION}{kept}\n# the end\nnotes: [one]\n"


def test_a_slow_node_leaves_out_what_all_do_together(hpcdist: Hpcdist, folder: Path) -> None:
    slow = [pair._replace(bandwidth=0.01 if 2 in pair[:2] else 10.0) for pair in PAIRS]
    ran(folder, pairs=(*slow,))
    assert hpcdist("sites", "check", "toy", "--measured", *PATH).code == 0
    text = (folder / "sites/toy.yaml").read_text()
    assert "pair: 10.0\n  versions:\n" in text


def test_a_shipped_site_is_copied(hpcdist: Hpcdist, folder: Path) -> None:
    ran(folder, site="slurm")
    result = hpcdist("sites", "check", "slurm", "--measured", *PATH)
    assert (result.code, result.out) == (0, "ok: sites/slurm.yaml\n")
    assert "which hpcdist does not read any more" in result.err
    assert (folder / "sites/slurm.yaml").read_text().endswith(SECTION)


def test_what_is_out_of_range_is_not_written(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    ran(folder, pairs=tuple(pair._replace(bandwidth=1e9) for pair in PAIRS), bytes=1 << 60)
    result = hpcdist("sites", "check", "toy", "--measured", *PATH)
    assert (result.code, (folder / "sites/toy.yaml").read_text()) == (2, TOY)
    wording(result.err)


def test_nothing_was_measured(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    result = hpcdist("sites", "check", "toy", "--measured", *PATH)
    assert result.code == 2
    wording(result.err.replace(str(folder), "FOLDER"))


@pytest.mark.parametrize("section", ["measured: [\n]\n", "'measured': []\n"])
def test_a_section_that_is_not_understood_stays(
    hpcdist: Hpcdist, folder: Path, section: str, wording: Wording
) -> None:
    file = folder / "sites/toy.yaml"
    file.write_text(TOY + section)
    ran(folder)
    result = hpcdist("sites", "check", "toy", "--measured", *PATH)
    assert (result.code, file.read_text()) == (2, TOY + section)
    wording(result.err.replace(__version__, "VERSION"))
