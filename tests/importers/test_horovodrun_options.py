"""Options of horovodrun in an MPIJob: what a word looks like to YAML does not change what it means."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError, errors_in
from hpcdist.experiment.launch_options import HOROVOD, ONCE
from hpcdist.experiment.writing import write
from hpcdist.importers.polyaxon import as_native
from hpcdist.layers.frameworks.horovod import KNOBS
from hpcdist.loading.load import load_experiment
from hpcdist.plan.placeholders import OUTPUTS
from tests.importers.remarks import errors_of
from tests.plans import TESTBED, planned
from tests.wording import Wording

JOB = """\
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {{name: a}}
spec:
  mpiReplicaSpecs:
    Launcher: {{replicas: 1, template: {{spec: {{containers: [{{name: l, image: i, command: {command}}}]}}}}}}
    Worker:
      replicas: 2
      template: {{spec: {{containers: [{{name: w, image: i}}]}}}}
"""
WORDS = (
    "t", "y", "yes", "on", "off", "no", "null", "~", "true", "False", "1e3", "0x10", "0o17", "010", "1_000",
    "-1", "+1", "1.", ".5", "2024-01-31", "12:30:45", "1:2", "a: b", "- a", "#a", "a #b", "{a}", "[a]", "*a",
    "&a", "!a", "%a", "@a", "`", "'", '"', "\\", "a b", " a ", "=", "é", "--", "nan", "inf", "",
)  # fmt: skip
KINDS = {knob.key: knob.kind for knob in KNOBS}
VALUED = sorted(name for name, kind in HOROVOD.items() if kind == "knob")


def job(*words: str) -> str:
    listed = ", ".join(f"'{word.replace(chr(39), 2 * chr(39))}'" for word in words)
    return JOB.format(command=f"[horovodrun, -np, '2', {listed}, python, x.py]")


def imported(text: str) -> dict[str, Any]:
    """Return the section of Horovod, written as YAML and read again."""
    first = importers.read(source.parse(text, "f.yml").data)
    again = source.parse(write(as_native(first.data)), "again.yml").data
    assert write(again) == write(as_native(first.data))  # as texts: NaN is not equal to itself
    assert again["run"]["cmd"] == "python x.py"
    section: dict[str, Any] = again.get("horovod", {})
    return section


def test_the_table_of_options_has_every_setting_of_horovod() -> None:
    settings = {
        re.sub("^no_", "", name.replace("-", "_")) for name, kind in HOROVOD.items() if kind == "knob"
    }
    switches = {
        re.sub("^no_", "", name.replace("-", "_")) for name, kind in HOROVOD.items() if kind == "switch"
    }
    others = {"log_hide_timestamp", "log_without_timestamp"}  # names of log_with_timestamp
    assert settings == {key for key, kind in KINDS.items() if kind != "flag"}
    assert switches - others == {key for key, kind in KINDS.items() if kind == "flag"}
    assert ONCE["horovodrun"].keys() >= HOROVOD.keys()


@given(st.sampled_from(VALUED), st.sampled_from(WORDS) | st.text("abn0159-+._eE:/ '\"\\#"), st.booleans())
def test_a_value_stays_what_it_is(option: str, word: str, glued: bool) -> None:  # noqa: FBT001
    words = (f"--{option}={word}",) if glued else (f"--{option}", word)
    key = option.replace("-", "_")
    number_of = {"integer": int, "number": float}.get(KINDS[key], str)
    if not glued and word.startswith("-") and word != "-" and not re.fullmatch(r"-\d+|-\d*\.\d+", word):
        return  # argparse takes it for an option
    try:
        expected = number_of(word)
    except ValueError:
        expected = word
    assert repr(imported(job(*words))[key]) == repr(expected)


@pytest.mark.parametrize("word", [word for word in WORDS if word])
def test_a_timeline_gets_the_name_that_was_written(word: str) -> None:
    plan = planned(TESTBED, framework="horovod", horovod=imported(job(f"--timeline-filename={word}")))
    (timeline,) = [item for item in plan.environment.variables if item.name == "HOROVOD_TIMELINE"]
    assert timeline.template is not None
    assert timeline.template.parts == (OUTPUTS, f"/{word}")


@pytest.mark.parametrize(
    ("words", "section"),
    [
        ("--autotune", {"autotune": True}),
        ("--no-autotune", {"autotune": False}),
        ("--no-stall-check", {"stall_check": False}),
        ("--no-hierarchical-allreduce", {"hierarchical_allreduce": False}),
        ("--log-without-timestamp", {"log_with_timestamp": False}),
        ("--log-hide-timestamp", {"log_with_timestamp": False}),
        ("--no-log-hide-timestamp", {"log_with_timestamp": True}),
        ("--tcp --gloo", {"tcp": True, "controller": "gloo"}),
        ("--timeline-filename a --timeline-filename b", {"timeline_filename": "b"}),
        ("--min-np 1 --max-num-proc 2", {"elastic": {"min_np": 1, "max_np": 2}}),
    ],
)
def test_switches_and_repeated_options(words: str, section: dict[str, object]) -> None:
    assert imported(job(*shlex.split(words))) == section


@pytest.mark.parametrize(
    "words",
    [
        "--min-np two",
        "--fusion-threshold-mb 0x10",
        "--cycle-time-ms on",
        "--thread-affinity=-1",
    ],
)
def test_a_wrong_number_is_reported_as_it_was_written(words: str, wording: Wording) -> None:
    text = job(*shlex.split(words))
    assert errors_of(text) == []
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(text, "f.yml"))
    wording(map(str, errors_in(caught.value.problems)))
