# ruff: noqa: E501 - a message is compared as one line
"""The image's own entrypoint, in each runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan
from hpcdist.plan.values import PROGRAM
from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from tests.layers.containers.sites import IMAGE, OWN, boxed, two_tasks
from tests.plans import WRAPPER, warnings_of, words
from tests.plug_in import plugged_in

BINDS = [f'--bind "{OWN[0]}"', f'${{HPCDIST_RUN_DIR:+--bind "{OWN[1]}"}}']
GIVEN = "write the program as `run.cmd` (`--set run.cmd='python train.py'`)"


def entrypoint(machine: Site, *, args: str | None = '--lr 0.1 "$HPCDIST_RANK"', **run: Any) -> Plan:
    return two_tasks(machine, run={"entrypoint": "image", "args": args, **run})


def started(plan: Plan) -> list[str]:
    """Return the words that start the entrypoint."""
    texts = words(plan)
    assert texts[texts.index(WRAPPER) + 1] == PROGRAM
    return texts[texts.index(PROGRAM) + 1 :]


def test_apptainer_starts_the_runscript() -> None:
    plan = entrypoint(boxed("apptainer", env={"B": "x y"}, library_path=["/opt/lib"]))
    line = 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"'
    assert started(plan) == [
        *("env", "APPTAINER_NO_EVAL=1", "apptainer", "exec", "--nv", *BINDS, '--pwd "$PWD"'),
        '"$hpcdist_image"',
        *("bash", "-c", line, "hpcdist", '"/opt/lib"', "env", "B=x y"),
        "/.singularity.d/runscript",
    ]
    assert plan.identity.command == '"$@" --lr 0.1 "$HPCDIST_RANK"'


def test_a_task_execs_what_starts_it() -> None:
    script = render(entrypoint(boxed("apptainer", env={"B": "x y"})))
    task = script[script.index("  exec env") : script.index("\n}\n")]
    assert " ".join(task.replace("\\\n", "").split()) == (
        'exec env APPTAINER_NO_EVAL=1 apptainer exec --nv --bind "$PWD:$PWD" '
        '${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"} --pwd "$PWD" "$hpcdist_image" '
        "env 'B=x y' /.singularity.d/runscript --lr 0.1 \"$HPCDIST_RANK\""
    )


def test_singularity_reads_a_variable_of_its_own_name() -> None:
    plan = entrypoint(boxed("singularity", gpus=False), workdir="/opt/my work")
    assert started(plan) == [
        *("env", "SINGULARITY_NO_EVAL=1", "singularity", "exec", *BINDS, "--pwd", "/opt/my work"),
        *('"$hpcdist_image"', "/.singularity.d/runscript"),
    ]


def test_podman_starts_it_in_its_own_folder_and_sets_variables_by_options() -> None:
    found = started(entrypoint(boxed("podman-hpc", env={"B": "x y"})))
    assert [text for text in found if "workdir" in text or "B=" in text] == ["--env=B=x y"]
    assert found[-1] == IMAGE
    assert "--workdir=/w" in started(entrypoint(boxed("podman-hpc"), workdir="/w"))


def test_shifter() -> None:
    machine = boxed("shifter", args=["--module=gpu"], env={"B": 1})
    start = ["shifter", f"--image=docker:{IMAGE}"]
    rest = ["--env=B=1", "--module=gpu", "--entrypoint", "--"]
    assert started(entrypoint(machine)) == [*start, '--workdir="$PWD"', *rest]
    assert started(entrypoint(machine, workdir="/w")) == [*start, "--workdir=/w", *rest]


def test_pyxis_runs_what_enroot_wrote() -> None:
    plan = entrypoint(boxed("pyxis", env={"B": 1}))
    assert "--no-container-entrypoint" in words(plan)[: words(plan).index(WRAPPER)]
    assert started(plan)[:4] == ["env", "B=1", "sh", "-c"]
    assert not any("WORKDIR" in text for text in warnings_of(plan))


RC = """
cd "/" && unset OLDPWD || exit 1

if [ -s /etc/rc.local ]; then
    . /etc/rc.local
fi

if [ $# -gt 0 ]; then
    exec 'printf' '[%s]' "$PWD" "$@"
else
    exec 'printf' '[%s]' 'cmd'
fi
"""
"""What enroot writes (``docker::configure`` in its src/docker.sh): its commands, shortened."""


@pytest.mark.parametrize(
    ("run", "output"),
    [
        ({"args": "--a 'it'\\''s $x'"}, "[/][--a][it's $x]"),
        ({"args": "--a", "workdir": "/usr"}, "[/usr][--a]"),
        ({"args": None}, "[cmd]"),
    ],
)
def test_the_entrypoint_runs_and_not_the_command_of_pyxis(
    tmp_path: Path, run: dict[str, Any], output: str
) -> None:
    (tmp_path / "rc").write_text(RC)
    (tmp_path / "rc.local").write_text('exec "$@"\n')  # as pyxis does
    plan = entrypoint(boxed("pyxis"), **run)
    here = [text.replace("/etc/rc", f"{tmp_path}/rc") for text in started(plan)]
    done = subprocess.run(
        ["bash", "-c", plan.identity.command, "bash", *here], capture_output=True, text=True, check=True
    )
    assert done.stdout == output


def test_without_enroots_file_nothing_ends_well(tmp_path: Path) -> None:
    here = [text.replace("/etc/rc", f"{tmp_path}/rc") for text in started(entrypoint(boxed("pyxis")))]
    assert subprocess.run(here, check=False, stderr=subprocess.DEVNULL).returncode != 0


STAND_IN = """#!/bin/bash
# Shifter's and podman's reading of options, as their manuals have it: they end at -- and at the image.
while [[ $1 == -* && $1 != -- || $1 == run ]]; do shift; done
shift
printf '[%s]' "$@"
"""


@pytest.mark.parametrize("runtime", ["shifter", "podman-hpc"])
def test_arguments_arrive_as_words_of_the_task(tmp_path: Path, runtime: str) -> None:
    (tmp_path / runtime).write_text(STAND_IN)
    (tmp_path / runtime).chmod(0o755)
    plan = entrypoint(boxed(runtime), args="""--name "it's" --rank=$HPCDIST_RANK '$x' "" """)
    line = " ".join(text for text in started(plan) if "$" not in text and "*" not in text)
    command = f"set -- {line}\n{plan.identity.command}"
    done = subprocess.run(
        ["bash", "-c", command],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HPCDIST_RANK": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[--name][it's][--rank=3][$x][]"


@pytest.mark.parametrize(
    ("runtime", "warns"), [("apptainer", True), ("shifter", True), ("podman-hpc", False)]
)
def test_the_submit_directory_is_no_workdir(runtime: str, warns: bool) -> None:  # noqa: FBT001
    warning = (
        f"run.entrypoint: {runtime} starts the image's entrypoint in the submit directory, not in the image's "
        "WORKDIR; if it needs that, write it as `run.workdir`"
    )
    assert (warning in warnings_of(entrypoint(boxed(runtime)))) is warns
    assert warning not in warnings_of(entrypoint(boxed(runtime), workdir="/w"))


@pytest.mark.parametrize(
    ("runtime", "words_of"),
    [
        ("apptainer", ['--pwd "$PWD"', "--pwd", "/w"]),
        ("shifter", ['--workdir="$PWD"', "--workdir=/w"]),
        ("podman-hpc", ['--workdir="$PWD"', "--workdir=/w"]),
        ("pyxis", ['--container-workdir="$PWD"', "--container-workdir=/w"]),
    ],
)
def test_a_command_starts_in_the_submit_directory_or_in_a_folder_of_the_image(
    runtime: str, words_of: list[str]
) -> None:
    machine = boxed(runtime)
    without, own = words(two_tasks(machine)), words(two_tasks(machine, run={"cmd": "true", "workdir": "/w"}))
    assert [word for word in without if word not in own] == words_of[:1]
    assert [word for word in own if word not in without] == words_of[1:]


@pytest.mark.parametrize("runtime", ["apptainer", "shifter", "podman-hpc", "pyxis"])
def test_binds_of_the_experiment_come_after_the_sites(runtime: str) -> None:
    build = {"image": IMAGE, "binds": ["$SCRATCH/x:/x:ro", "data"]}
    text = " ".join(words(two_tasks(boxed(runtime, binds=["/a:/b"]), build=build)))
    places = [text.index(bind) for bind in ("/a:/b", "$SCRATCH/x:/x:ro", "$PWD/data:$PWD/data")]
    assert places == sorted(places)


def refusal(machine: Site, **data: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        two_tasks(machine, **{"run": {"entrypoint": "image"}, **data})
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("library_path", "which a shell inside sets before the program"),
        ("prefix", "which starts the program inside"),
    ],
)
def test_what_nothing_inside_can_put_before_the_program(key: str, what: str) -> None:
    section: dict[str, Any] = {key: ["/opt/lib"]}
    has = f"site x has container.{key}, {what}, and"
    assert refusal(boxed("shifter", **section)) == [
        f"run.entrypoint: {has} shifter itself starts the image's entrypoint; {GIVEN}"
    ]


def test_a_framework_that_starts_the_program() -> None:
    data = {"framework": "pytorch", "pytorch": {"launch": "torchrun"}}
    assert refusal(boxed("apptainer"), **data) == [
        (
            "run.entrypoint: `pytorch.launch` starts a program, and the image's entrypoint is not known; write the "
            "program as `run.cmd`, or remove `pytorch.launch`"
        )
    ]


def test_outside_of_the_container() -> None:
    assert refusal(boxed("apptainer"), batch={"container": False}) == [
        f"run.entrypoint: without its container there is no entrypoint; {GIVEN}"
    ]


def test_a_runtime_that_cannot(tmp_path: Path) -> None:
    code = """
from hpcdist.layers.containers import PlainRuntime
class Boat(PlainRuntime):
    name = program = "boat"
    def image(self, image): return image.text
    def words(self, job, container, runtime): return ()
BOAT = Boat()
"""
    with plugged_in(tmp_path, "container", "boat", code):
        assert refusal(boxed("boat")) == [
            f"run.entrypoint: boat does not start the entrypoint of an image; {GIVEN}"
        ]
