from __future__ import annotations

import shlex
from datetime import date
from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.published import (
    NO_MACHINE,
    NONE_READ,
    commands,
    examples_of,
    line,
    lines,
    main,
    mistake,
    mistakes,
    name_of,
    options,
    plan_of,
    said,
    uncompared,
)
from tests.sites import SHIPPED, shipped_site, site
from tests.tiers import sweep

ENTRY = {"example": "mpi", "where": "https://x.example/page", "read": "2026-11-23"}
MOST_WORDS = 25


def problems(unpublished: Any = None, **keys: Any) -> list[str]:
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    built, found = fields.build(Site, base | {"published": [ENTRY | keys], "unpublished": unpublished})
    return [str(problem) for problem in (*found, *(problems_of(built) if built else ()))]


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_published_examples_are_kept_or_have_a_reason(name: str) -> None:
    assert [*mistakes(shipped_site(name))] == []


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_what_is_not_compared_has_a_reason(name: str) -> None:
    """Either the pages that were read have no such example, or there were no pages of the centre's."""
    found = shipped_site(name)
    reasons = uncompared(found)
    compared = {entry.example for entry in found.published}
    assert {*reasons} | compared >= {*examples_of(found)}
    assert not compared & {*reasons}
    assert found.published or found.unpublished or name in NO_MACHINE


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_reasons_are_one_short_sentence_and_pages_have_a_day(name: str) -> None:
    found = shipped_site(name).published
    reasons = [reason for entry in found for reason in entry.settings.values() if reason]
    assert [reason for reason in reasons if len(reason.split()) >= MOST_WORDS] == []
    for entry in found:
        date.fromisoformat(entry.read)


@pytest.mark.parametrize(
    ("keys", "sentences"),
    [
        ({"settings": {"--nodes": None, "--mem=0": "nodes are whole"}}, []),
        ({"settings": {}}, [": an example must have settings; write one a line: `--nodes=2:`"]),
        (
            {"settings": {"A=1": " "}},
            [".A=1: the reason is empty; write why, or no value where hpcdist's script has the same"],
        ),
        (
            {"settings": {"export A=1": None}},
            [".export A=1: a setting is written without the word before it; write 'A=1'"],
        ),
        (
            {"settings": {" ": None}},
            [". : ' ' is not a setting; write one, such as `--gpus-per-node=4` or `NAME=value`"],
        ),
    ],
)
def test_problems_of_published_examples_have_their_place(keys: dict[str, Any], sentences: list[str]) -> None:
    assert problems(**keys) == [f"published[0].settings{sentence}" for sentence in sentences]


def test_problems_of_reasons_have_their_place() -> None:
    reasons = {"mpi": "none", "horovod": "none", "hvd": "none"}
    assert problems(reasons, settings={"--nodes": None}) == [
        "unpublished.mpi: mpi is compared in `published`; remove the reason",
        "unpublished.hvd: there is no example 'hvd'; write one of horovod, pytorch, mpi",
    ]


def test_each_example_has_its_own_reason() -> None:
    found = site(published=[ENTRY | {"settings": {"--nodes": None}}], unpublished={"horovod": "removed"})
    assert uncompared(found) == {"horovod": "removed", "pytorch": NONE_READ}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("srun --nodes=2 --cpu-bind list:0-3 --label", ["--nodes=2", "--cpu-bind=list:0-3", "--label"]),
        ("-l select=2:ncpus=64:ngpus=4 -A proj -V", ["select=2", "ncpus=64", "ngpus=4", "-A proj", "-V"]),
        ("mpirun -np 4 --mca btl ^openib -x NCCL_DEBUG=INFO",
         ["-np 4", "--mca btl ^openib", "-x NCCL_DEBUG=INFO"]),
        ("--cpu-bind=v,mask_cpu=0x00fe,0x0 --bind=/opt/cray:/opt/cray --bind=/a:/b --bind /c/",
         ["--cpu-bind=mask_cpu:0xfe,0x0", "--bind=/opt/cray", "--bind=/a:/b", "--bind=/c"]),
        ("--mem=480G --mem=0", ["--mem=491520M", "--mem=0"]),
        ("env A='b c' torchrun", ["A=b c"]),
        ("apptainer exec --nv --pwd /x image.sif", ["--nv", "--pwd=/x"]),
        ("apptainer exec --fakeroot image.sif", ["--fakeroot"]),
    ],
)  # fmt: skip
def test_options_of_a_command_in_long_form(words: str, found: list[str]) -> None:
    assert [*options(shlex.split(words))] == found


def test_settings_of_setup_lines() -> None:
    text = 'export A="b c" D=1; if test x; then N=1 source /etc/x.sh; else fail no; fi && module use /soft'
    assert [*commands(text)] == ["A=b c", "D=1", "source /etc/x.sh", "module use /soft"]


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("--nodes=2", "--nodes"),
        ("-q debug", "-q"),
        ("A=1=2", "A"),
        ("module load rocm/7.1", "module load rocm"),
        ("--mca btl ^openib", "--mca btl"),
        ("-x A=1", "-x A"),
        ("source /etc/x.sh", "source /etc/x.sh"),
    ],
)
def test_name_of_a_setting(setting: str, name: str) -> None:
    assert name_of(setting) == name


OURS = ("--nodes=2", "--mem=491520M", "--cpu-bind=list:0-3", "module load rocm/7.1.1", "A=1", "A=2", "-n 8")


SAME = ("--nodes", "--nodes=2", "--mem=480G", "--cpu-bind list:0-3", "module load rocm", "A=2", "-n 8")
OTHERS = ("--nodes=4", "--mem=0", "module load rocm/6", "A=3", "B", "module load roc", "-n 4")


@pytest.mark.parametrize("theirs", [*SAME, *OTHERS])
def test_a_setting_is_ours_with_the_same_value_or_without_any(theirs: str) -> None:
    assert line(theirs, None, OURS).same is (theirs in SAME)


ABSENT = "not in our script, which has {}; write the reason, or correct the site"
STALE = "our script has it, {}; remove the reason"


@pytest.mark.parametrize(
    ("theirs", "reason", "text"),
    [
        ("A=1", None, None),
        ("A=3", "why", None),
        ("A=3", None, ABSENT.format("'A=1', 'A=2'")),
        ("B=3", None, ABSENT.format("nothing of this name")),
        ("--nodes=2", "why", STALE.format("'--nodes=2'")),
        ("--nodes", None, None),
        ("module load rocm", None, None),
        ("--cpu-bind", None, "it needs its value, as ours has one: '--cpu-bind=list:0-3'"),
    ],
)
def test_a_missing_reason_and_a_stale_one_are_mistakes(
    theirs: str, reason: str | None, text: str | None
) -> None:
    assert mistake(line(theirs, reason, OURS)) == text


def test_a_mistake_names_the_site_file_and_the_key() -> None:
    settings = {"--nodes=2": None, "--ntasks-per-node": "why", "--mem=0": None}
    found = site(published=[ENTRY | {"settings": settings}])
    assert [*mistakes(found)] == [
        f"x.yaml: published (mpi): '--ntasks-per-node': {STALE.format(repr('--ntasks-per-node=4'))}",
        f"x.yaml: published (mpi): '--mem=0': {ABSENT.format('nothing of this name')}",
    ]


def test_torchrun_where_the_published_example_has_it() -> None:
    entry = ENTRY | {"example": "pytorch", "settings": {"--rdzv-backend=static": None}}
    assert [*mistakes(site(published=[entry | {"launch": "torchrun"}]))] == []
    assert len([*mistakes(site(published=[entry]))]) == 1
    assert problems(launch="torchrun", settings={"A=1": None}) == [
        "published[0].launch: mpi has no `launch`; remove it"
    ]


def test_a_variable_that_needs_a_library_is_the_same_under_that_condition() -> None:
    entry = ENTRY | {"settings": {"FI_PROVIDER=AWS Libfabric": None, "B=1": None}}
    env = {"FI_PROVIDER": {"value": "AWS Libfabric", "found": "libnccl-net.so"}, "B": 1}
    found = site(published=[entry], fabric={"env": env})
    assert [(each.same, each.condition) for each in lines(found, found.published[0])] == [
        (True, "if libnccl-net.so is found"),
        (True, None),
    ]


def test_all_of_our_settings_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["polaris"])
    printed = capsys.readouterr().out.splitlines()
    ours = [each for each in said(plan_of(shipped_site("polaris"), "mpi")) if "POLYAXON" not in each]
    assert printed[-len(ours) :] == [f"  {each}" for each in ours]
