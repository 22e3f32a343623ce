"""What ``hpcdist sites check`` finds in a site file, each at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.plug_in import plugged_in
from tests.wording import Wording

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


@pytest.mark.parametrize(("status", "asks"), [("", False), ("unverified", False), ("documented", True)])
def test_missing_sources_warn_if_a_status_is_claimed(
    status: str, hpcdist: Hpcdist, folder: Path, wording: Wording, *, asks: bool
) -> None:
    code, text = checked(hpcdist, folder, HEAD + (f"status: {status}\n" if status else ""))
    assert (code, bool(text)) == (0, asks)
    wording(text)


def test_broken_sources_are_reported_once(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    code, err = checked(
        hpcdist, folder, f"{HEAD}status: documented\nsources: [{{where: x, read: 2026-11, of: 1.5}}]\n"
    )
    assert (code, err.count("sources")) == (2, 1)
    wording(err)


def test_a_page_that_was_read_on_no_date_is_reported(
    hpcdist: Hpcdist, folder: Path, wording: Wording
) -> None:
    text = f"{HEAD}sources: [{{where: x, read: '2026', of: [name]}}]\n"
    code, err = checked(hpcdist, folder, text)
    assert code == 0
    wording(err)


def test_a_page_that_was_read_in_the_future_is_reported(
    hpcdist: Hpcdist, folder: Path, wording: Wording
) -> None:
    code, err = checked(hpcdist, folder, f"{HEAD}sources: [{{where: x, read: 2999-01-01, of: [name]}}]\n")
    assert code == 0
    wording(err)


def test_its_variables_are_linted(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    code, text = checked(hpcdist, folder, HEAD + VARIABLES + SOURCES)
    assert code == 2
    wording(text)


ALT_READ: Final = "fabric: {together: [{why: x, directives: [%s], env: {FI_CXI_RDZV_PROTO: alt_read}}]}\n"


def test_variables_are_linted_with_their_directives(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    whole = HEAD + ALT_READ % "--network=disable_rdzv_get" + SOURCES
    assert checked(hpcdist, folder, whole) == (0, "")
    code, text = checked(hpcdist, folder, HEAD + ALT_READ % "" + SOURCES)
    assert code == 0
    wording(text)


@pytest.mark.parametrize(
    "lines",
    [
        'setup: ["if true; then", "x", "fi"]\n',
        'setup: [a, "if true; then", "x", "fi", "fi", b]\n',
        'task_setup: ["echo \'a", b]\n',
    ],
    ids=["none", "block", "quote"],
)
def test_bash_syntax_errors(hpcdist: Hpcdist, folder: Path, lines: str, wording: Wording) -> None:
    code, text = checked(hpcdist, folder, HEAD + lines + SOURCES)
    assert code == (2 if text else 0)
    wording(text)


def test_its_directives_are_those_of_its_scheduler(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    lines = "directives: {mandatory: [--nodes=3, --output=x, wd, --mem=0, --hint=nomultithread]}\n"
    code, text = checked(hpcdist, folder, HEAD + lines + SOURCES)
    assert code == 2
    wording(text)


def test_removed_and_unsupported_names(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    text = "name: odd\ndescription: x\nscheduler: torque\nlauncher: aprun\n" + SOURCES
    code, said = checked(hpcdist, folder, text)
    assert code == 2
    wording(said)


STRICT: Final = """\
from hpcdist.base.errors import Problem
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
