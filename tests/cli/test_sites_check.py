"""What ``hpcdist sites check`` finds in a site file, each at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.plug_in import plugged_in

from .conftest import Hpcdist

HEAD: Final = "name: odd\ndescription: x\nscheduler: slurm\nlauncher: srun\n"
SOURCES: Final = "sources: [{where: x, read: 2026-11}]\n"


def checked(hpcdist: Hpcdist, folder: Path, text: str) -> tuple[int, str]:
    """Return the exit code, and its messages without those about missing sources."""
    (folder / "odd.yaml").write_text(text)
    result = hpcdist("sites", "check", "./odd.yaml")
    told = [line for line in result.err.splitlines(keepends=True) if "no source is given" not in line]
    return result.code, "".join(told)


VARIABLES: Final = """\
fabric:
  env:
    NCCL_IB_DISABL: 1
    NCCL_DEBUG: INFO
  together:
    - {why: x, when: single_node, env: {NCCL_COMM_ID: "a:1", NCCL_NET_GDR_LEVEL: FOO}}
  known: {NCCL_NET_GDR_LEVEL: it is so}
"""

LINTED: Final = """\
error: odd.yaml:10:55: fabric.together[0].env.NCCL_COMM_ID: NCCL_COMM_ID=a:1: never set it by hand: \
NCCL's processes find each other by it, so a fixed one makes jobs meet that must not; remove it \
(github.com/NVIDIA/nccl @ 5067397c, src)
warning: odd.yaml:7:21: fabric.env.NCCL_IB_DISABL: NCCL_IB_DISABL=1: NCCL 2.30 reads no such variable; \
write NCCL_IB_DISABLE (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html)
"""


@pytest.mark.parametrize(("status", "asks"), [("", False), ("unverified", False), ("documented", True)])
def test_missing_sources_warn_if_a_status_is_claimed(
    status: str, hpcdist: Hpcdist, folder: Path, *, asks: bool
) -> None:
    result = checked(hpcdist, folder, HEAD + (f"status: {status}\n" if status else ""))
    why = "list where its values come from, and when that was read"
    told = f"warning: odd.yaml:1:1: it has no `sources`; {why}\n"
    assert result == (0, told if asks else "")


def test_broken_sources_are_reported_once(hpcdist: Hpcdist, folder: Path) -> None:
    code, err = checked(
        hpcdist, folder, f"{HEAD}status: documented\nsources: [{{where: x, read: 2026-11, of: 1.5}}]\n"
    )
    assert (code, err.count("sources")) == (2, 1)
    assert "sources[0].of: expected a list, got 1.5; write it as [a, b]" in err


def test_a_page_that_was_read_on_no_date_is_reported(hpcdist: Hpcdist, folder: Path) -> None:
    text = f"{HEAD}sources: [{{where: x, read: '2026', of: [name]}}]\n"
    code, err = checked(hpcdist, folder, text)
    expected = "sources[0].read: '2026' is no date; write the day or the month: 2026-11-23 or 2026-11"
    assert (code, err.count(expected)) == (0, 1)


def test_a_page_that_was_read_in_the_future_is_reported(hpcdist: Hpcdist, folder: Path) -> None:
    code, err = checked(hpcdist, folder, f"{HEAD}sources: [{{where: x, read: 2999-01-01, of: [name]}}]\n")
    assert (code, err.count("sources[0].read: 2999-01-01 is in the future; write the day of reading")) == (
        0,
        1,
    )


def test_its_variables_are_linted(hpcdist: Hpcdist, folder: Path) -> None:
    assert checked(hpcdist, folder, HEAD + VARIABLES + SOURCES) == (2, LINTED)


ALT_READ: Final = "fabric: {together: [{why: x, directives: [%s], env: {FI_CXI_RDZV_PROTO: alt_read}}]}\n"

LONE: Final = """\
warning: odd.yaml:5:71: fabric.together[0].env.FI_CXI_RDZV_PROTO: FI_CXI_RDZV_PROTO=alt_read: it needs \
the driver's get protocol off, and no directive does that; add --network=disable_rdzv_get (Slurm), \
--disable_rdzv_get (PBS) or --setattr=rdzv_get_en=0 (Flux) (github.com/HewlettPackard/shs-ccl-docs @ 438fcce)
"""


def test_variables_are_linted_with_their_directives(hpcdist: Hpcdist, folder: Path) -> None:
    whole = HEAD + ALT_READ % "--network=disable_rdzv_get" + SOURCES
    assert checked(hpcdist, folder, whole) == (0, "")
    assert checked(hpcdist, folder, HEAD + ALT_READ % "" + SOURCES) == (0, LONE)


BLOCK: Final = """\
error: odd.yaml:5:40: setup[4]: bash syntax error: line 1: syntax error near unexpected token `fi'; \
check it with `bash -n`
"""
QUOTE: Final = """\
error: odd.yaml:5:14: task_setup[0]: bash syntax error: line 1: unexpected EOF while looking for \
matching `''; check it with `bash -n`
"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('setup: ["if true; then", "x", "fi"]\n', ""),
        ('setup: [a, "if true; then", "x", "fi", "fi", b]\n', BLOCK),
        ('task_setup: ["echo \'a", b]\n', QUOTE),
    ],
)
def test_bash_syntax_errors(hpcdist: Hpcdist, folder: Path, lines: str, told: str) -> None:
    assert checked(hpcdist, folder, HEAD + lines + SOURCES) == (2 if told else 0, told)


DEMANDED: Final = """\
error: odd.yaml:5:26: directives.mandatory[0]: --nodes is set by hpcdist; remove it: an experiment sets it \
by `batch.nodes`
error: odd.yaml:5:37: directives.mandatory[1]: --output is set by hpcdist; use `batch.output`
error: odd.yaml:5:49: directives.mandatory[2]: 'wd' is not a directive of Slurm; write --flag=value, with \
quotes around spaces
"""


def test_its_directives_are_those_of_its_scheduler(hpcdist: Hpcdist, folder: Path) -> None:
    lines = "directives: {mandatory: [--nodes=3, --output=x, wd, --mem=0, --hint=nomultithread]}\n"
    assert checked(hpcdist, folder, HEAD + lines + SOURCES) == (2, DEMANDED)


GONE: Final = """\
error: odd.yaml:3:12: scheduler: Torque is not supported: of the PBS family only PBS Professional and \
OpenPBS (pbs) are; write one of local, slurm, pbs, lsf, flux, sge
error: odd.yaml:4:11: launcher: aprun belonged to ALPS, which is gone with the Cray XC and XE machines: \
HPE Cray EX machines start tasks by srun under Slurm, and by PALS mpiexec (launcher pals) under PBS; write \
one of srun, mpirun, horovodrun, horovodrun-mpi, horovodrun-elastic, jsrun, pals, hydra, ibrun, flux, \
processes
"""


def test_removed_and_unsupported_names(hpcdist: Hpcdist, folder: Path) -> None:
    text = "name: odd\ndescription: x\nscheduler: torque\nlauncher: aprun\n" + SOURCES
    assert checked(hpcdist, folder, text) == (2, GONE)


STRICT: Final = """\
from hpcdist.errors import Problem
from hpcdist.schedulers.local import Local

class Strict(Local):
    name = "strict"
    is_batch_system = True

    def directive_problems(self, site):
        for index, text in enumerate(site.directives.mandatory):
            yield Problem(f"{text!r} is too short", ("directives", "mandatory", index))

STRICT = Strict()
"""


def test_the_scheduler_of_a_plug_in_checks_directives_too(hpcdist: Hpcdist, folder: Path) -> None:
    text = HEAD.replace("slurm", "strict") + "directives: {mandatory: [-x]}\n" + SOURCES
    with plugged_in(folder / "lib", "scheduler", "strict", STRICT):
        code, err = checked(hpcdist, folder, text)
    assert (code, err.splitlines()[-1]) == (
        2,
        "error: odd.yaml:5:26: directives.mandatory[0]: '-x' is too short",
    )
