"""The lint of a shell's variables, or of a file's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.wording import Wording

from .conftest import Hpcdist

GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
FILE = """\
# what a colleague gave me
module load nccl
export NCCL_IB_RETRY_CNT=10 NCCL_CROSS_NIC="1" # both
NCCL_BUFFSIZE=$SIZE
if true; then echo 'unfinished
"""
ODD = "NCCL documents 0 to 7 and does not check it"
HINT = "write a number that is 0 to 7"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("NCCL_", "FI_", "UCX_", "OMPI_", "LOADED"))]:
        monkeypatch.delenv(name)


def test_a_clean_shell(hpcdist: Hpcdist) -> None:
    result = hpcdist("doctor", "--env")
    assert (result.code, result.out) == (0, "ok: no problems found\n")


def test_this_shell(hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setenv("NCCL_IB_RETRY_CNT", "10")
    result = hpcdist("doctor", "--env")
    assert result.code == 3
    wording(result.out)


def test_a_file(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "env.sh").write_text(FILE)
    result = hpcdist("doctor", "--env", "env.sh", "--json")
    assert result.code == 3
    (odd, note) = json.loads(result.out)
    assert odd == {
        "name": "NCCL_IB_RETRY_CNT",
        "value": "10",
        "origin": "env.sh:3",
        "happens": ODD,
        "write": HINT,
        "source": f"{GUIDE}#nccl-ib-retry-cnt",
        "severity": "warning",
    }
    assert (note["name"], note["origin"], note["severity"]) == ("NCCL_BUFFSIZE", "env.sh:4", "note")


@pytest.mark.parametrize(
    "line",
    [
        'export NCCL_IB_RETRY_CNT="10";',
        'declare -x NCCL_IB_RETRY_CNT="10"',
        "NCCL_DEBUG=WARN && export NCCL_IB_RETRY_CNT=10; NCCL_DEBUG=WARN",
    ],
)
def test_lines_of_bash_that_are_read(hpcdist: Hpcdist, line: str) -> None:
    result = hpcdist("doctor", "--env", "-", stdin=f"{line}\n")
    told = f"warning: <stdin>:1: NCCL_IB_RETRY_CNT=10: {ODD}; {HINT} ({GUIDE}#nccl-ib-retry-cnt)\n"
    assert (result.code, result.out) == (3, told)


@pytest.mark.parametrize(
    "line",
    [
        "setenv NCCL_IB_DISABLE yes",
        'setenv("NCCL_IB_DISABLE", "yes")',
        "set -x NCCL_IB_DISABLE yes",
        "NCCL_IB_DISABLE yes",
        "NCCL_IB_DISABLE: yes",
        "[ x ] && export NCCL_IB_DISABLE=yes",
        "export NCCL_IB_DISABLE='yes",
        "export NCCL_DEBUG NCCL_IB_DISABLE=yes",
        "mpirun -x NCCL_IB_DISABLE=yes python x.py",
        'export "NCCL_IB_DISABLE=yes"',
        ': "${NCCL_IB_DISABLE:=yes}"',
        '"NCCL_IB_DISABLE": "yes",',
        'os.environ["NCCL_IB_DISABLE"] = "yes"',
    ],
)
def test_an_unreadable_assignment_is_reported(hpcdist: Hpcdist, line: str) -> None:
    result = hpcdist("doctor", "--env", "-", stdin=f"{line}\n")
    assert (result.code, result.out) == (
        3,
        (
            f"warning: <stdin>:1: NCCL_IB_DISABLE: `{line}` is not a plain assignment, so the value was not "
            "checked; write `export NCCL_IB_DISABLE=VALUE` on a line of its own (hpcdist doctor --help)\n"
        ),
    )


@pytest.mark.parametrize(
    "line",
    [
        "# setenv NCCL_IB_DISABLE yes",
        "module load nccl # NCCL_IB_DISABLE=yes",
        'echo "NCCL_IB_DISABLE=$NCCL_IB_DISABLE"',
        "echo ${NCCL_IB_DISABLE:=0} $NCCL_IB_DISABLE",
        'echo "use NCCL_IB_DISABLE=yes"',
        '[ "$NCCL_IB_DISABLE" = yes ] || exit',
        "if [[ $NCCL_IB_DISABLE == yes ]]; then",
        "unset NCCL_IB_DISABLE",
        "setenv PATH /opt/bin",
    ],
)
def test_lines_without_variables_of_interest_are_ignored(hpcdist: Hpcdist, line: str) -> None:
    result = hpcdist("doctor", "--env", "-", stdin=f"{line}\n")
    assert (result.code, result.out) == (0, "ok: no problems found\n")


def test_notes_alone_exit_with_0(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("doctor", "--env", "-", stdin="NCCL_SHM_DISABLE=1\n")
    assert result.code == 0
    wording(result.out)


def test_against_a_site(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist(
        "doctor", "--env", "-", "--site", "perlmutter", stdin="UCX_TLS=rc\nNCCL_NET_GDR_LEVEL=PHB\n"
    )
    assert result.code == 3
    wording(result.out)


def test_the_site_of_the_config(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    (folder / "config.yml").write_text("site: frontier\n")
    monkeypatch.setenv("HPCDIST_CONFIG", str(folder / "config.yml"))
    result = hpcdist("doctor", "--env", "-", stdin="NCCL_CROSS_NIC=0\n")
    assert result.code == 3
    wording(result.out)


def test_no_such_site_in_the_environment(
    hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("HPCDIST_SITE", "perlmuter")
    result = hpcdist("doctor", "--env")
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_equal_notes_are_printed_once(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("doctor", "--env", "-", stdin="NCCL_SHM_DISABLE=1\nNCCL_P2P_DISABLE=1\n")
    assert result.code == 0
    wording(result.out)


def test_no_such_site(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("doctor", "--env", "--site", "perlmuter")
    assert (result.code, result.out) == (2, "")
    wording(result.err)
