"""What the real flux batch and flux run (0.88, `pip install flux-python`) make of scripts and lines."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.plan.values import DEFAULT, Directive
from hpcdist.schedulers.directives import directive_text
from hpcdist.schedulers.flux import FLUX
from hpcdist.schedulers.flux.directives import FIELDS, HEADER, OTHERS, RESERVED, SHORT
from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import planned
from tests.schedulers import plans
from tests.sites import site

CHECKOUT: Final = Path(__file__).parents[2]
PYTHON: Final = CHECKOUT / ".frameworks" / "flux" / "bin" / "python"
GOLDEN: Final = CHECKOUT / "tests" / "golden"

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.fixture(autouse=True)
def installed() -> None:
    if not os.access(PYTHON, os.X_OK):
        pytest.fail(f"there is no Flux in {PYTHON.parents[1]}: run `tools/setup all`", pytrace=False)


def flux(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = [PYTHON, Path(__file__).with_name("real.py"), *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def jobspec(*words: str | Path) -> Any:
    done = flux(words[0], "--dry-run", *words[1:])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def node(found: Any) -> Mapping[str, Any]:
    """Return what a jobspec asks of each node, and how many there are."""
    (resource,) = found["resources"]
    (slot,) = resource["with"]
    return {
        "nodes": resource["count"],
        "exclusive": resource.get("exclusive", False),
        "slots": slot["count"],
        **{part["type"]: part["count"] for part in slot["with"]},
    }


def options(found: Any) -> Any:
    return found["attributes"]["system"]["shell"]["options"]


def test_goldens_ask_for_what_was_planned() -> None:
    found = {
        name: node(jobspec("batch", GOLDEN / f"{name}.sh"))
        for name in ("sites/flux.mpi", "sites/flux.horovod", "horovod.tuolumne-like")
    }
    assert found == {
        "sites/flux.mpi": {"nodes": 2, "exclusive": False, "slots": 1, "core": 4},
        "sites/flux.horovod": {"nodes": 2, "exclusive": False, "slots": 1, "core": 1},
        "horovod.tuolumne-like": {"nodes": 4, "exclusive": True, "slots": 1, "core": 96},
    }


def test_all_that_a_plan_can_say(tmp_path: Path) -> None:
    machine = site(
        scheduler="flux",
        launcher="flux",
        environment="clean",
        node_types={"node": {"cpus": 16, "gpus": 4}},
        partitions={"pbatch": {"nodes": {"node": 100}}},
        default_partition="pbatch",
        directives={"mandatory": ["--setopt=mpibind=off"]},
    )
    plan = planned(
        machine,
        name="my-job",
        environment=environment(3, each=resources(gpu=2)),
        batch={
            "walltime": "1h30m",
            "account": "guests",
            "constraint": "a&b",
            "exclude_nodes": ["n1", "n2"],
            "exclusive": True,
            "signal": "B:USR1@120",
            "dependency": ["afterany:fM7Zq9AKHno", "singleton"],
        },
    )
    script = tmp_path / "job.sh"
    script.write_text(render(plan, run_dir=f"{tmp_path}/my runs"))
    found = jobspec("batch", "--setattr=user.hpcdist=hpcdist:12345678e0123456", script)
    system = found["attributes"]["system"]
    assert node(found) == {"nodes": 2, "exclusive": True, "slots": 1, "core": 16, "gpu": 4}
    assert found["attributes"]["user"] == {"hpcdist": "hpcdist:12345678e0123456"}
    assert set(system["environment"]) <= {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"}
    assert {
        key: system[key] for key in ("duration", "queue", "bank", "job", "dependencies", "constraints")
    } == {
        "duration": 5400.0,
        "queue": "pbatch",
        "bank": "guests",
        "job": {"name": "my-job"},
        "dependencies": [
            {"scheme": "afterany", "value": "fM7Zq9AKHno"},
            {"scheme": "singleton", "value": ""},
        ],
        "constraints": {"and": [{"properties": ["a", "b"]}, {"not": [{"hostlist": ["n1,n2"]}]}]},
    }
    assert {key: options(found)[key] for key in ("output", "mpibind")} == {
        "output": {"stdout": {"type": "file", "path": f"{tmp_path}/my runs/logs/job.out"}},
        "mpibind": "off",
    }
    started = shlex.split(" ".join(word.text for word in plan.words))
    assert options(jobspec(*started[1:]))["signal"] == {"signum": 10, "timeleft": 120.0}


@pytest.mark.parametrize(
    "value", ["a#b", 'a"b', r"a\b", r"\\", "it's", "(a|b)&c;<d>", "{{x}}", "$HOME", "* ~"]
)
def test_values_arrive_as_they_were_meant(value: str, tmp_path: Path) -> None:
    lines = [directive_text(HEADER, Directive(flag="--job-name", value=value, origin=DEFAULT)), "--nslots=1"]
    (tmp_path / "s.sh").write_text("#!/bin/sh\n" + "".join(f"#flux: {line}\n" for line in lines))
    assert jobspec("batch", tmp_path / "s.sh")["attributes"]["system"]["job"] == {"name": value}


@pytest.mark.parametrize(
    ("each", "expected", "tasks"),
    [
        (
            (resources(gpu=1), resources(gpu=1)),
            {"nodes": 1, "exclusive": False, "slots": 2, "core": 4, "gpu": 1},
            None,
        ),
        (
            (resources(cpu=6, gpu=1), resources(cpu=10, gpu=3)),
            {"nodes": 1, "exclusive": True, "slots": 1, "core": 1, "gpu": 4},
            {"type": "node", "count": 2},
        ),
    ],
)
def test_launch_lines(each: Any, expected: Mapping[str, Any], tasks: Any) -> None:
    machine = site(
        scheduler="flux",
        launcher="flux",
        node_types={"node": {"cpus": 16, "gpus": 4}},
        partitions={"pbatch": {"nodes": {"node": 100}}},
        default_partition="pbatch",
    )
    section = {"resources": each[0], "replicas": {"n_workers": 1, "default_worker": {"resources": each[1]}}}
    plan = planned(machine, framework="pytorch", environment=section)
    words = shlex.split(" ".join(word.text for word in plan.words))
    assert words[:2] == ["flux", "run"]
    found = jobspec(*words[1:])
    assert (node(found), options(found).get("per-resource")) == (expected, tasks)
    assert (options(found)["exit-on-error"], options(found)["exit-timeout"]) == (1, "none")
    assert found["tasks"][0]["command"] == words[-4:]


@pytest.mark.parametrize(
    "script",
    ["#!/bin/sh\n#flux: --colour\n", "#!/bin/sh\ntrue\n", "#!/bin/sh\n#flux: -n1\ntrue\n# flux: hi\n"],
)
def test_its_refusals_are_refusals(script: str, tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text(script)
    done = flux("batch", "--dry-run", tmp_path / "s.sh")
    assert done.returncode in (1, 2)
    assert "flux-batch: ERROR: " in done.stderr or "flux batch: error: " in done.stderr


def test_its_flags_are_known() -> None:
    shown = {"--help", "--list-plugins"}
    assert set(flux("batch", "--flags-of-it").stdout.split()) - shown == {*FIELDS, *RESERVED, *SHORT, *OTHERS}


def test_a_script_in_which_it_finds_directives_is_refused_before() -> None:
    with pytest.raises(Exception, match=r"run.cmd: Flux would take a line of the command for a directive"):
        FLUX.directives(plans.plan(command="true\n# flux: hi"), plans.site(scheduler="flux"))


def test_nodes_by_name_are_a_list_of_hosts(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    request = FLUX.request_nodes(("n1", "n2", "n4"))
    plan = planned(site(scheduler="flux", launcher="flux"), batch={"constraint": f"a&{request.constraint}"})
    script.write_text(render(plan, run_dir=str(tmp_path)))
    constraints = jobspec("batch", script)["attributes"]["system"]["constraints"]
    assert constraints == {"and": [{"properties": ["a"]}, {"hostlist": ["n1,n2,n4"]}]}
