"""Problems that planning finds in imported values have their places in the original file."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.loading.load import load_experiment
from hpcdist.loading.planning import located_once, origins
from hpcdist.planner.make_plan import make_plan
from tests.importers.remarks import cases
from tests.plans import TESTBED
from tests.wording import Wording

TOLD = """\
version: 1.1
run:
  kind: pytorchjob
  master: &role
    container:
      command: [python, t.py]
      env:
      - {name: WORLD_SIZE, value: "2"}
  worker: *role
"""
SELECTED = """\
apiVersion: kubeflow.org/v1
kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: a, command: [mpirun, x]}]}}
    Worker:
      replicas: 2
      template:
        spec:
          nodeSelector:
            disk: tape
          containers: [{name: a}]
"""


@pytest.mark.parametrize(
    "text",
    [
        TOLD,
        SELECTED,
    ],
    ids=cases(),
)
def test_a_warning_of_the_planner(text: str, wording: Wording) -> None:
    loaded = load_experiment(source.parse(text, "f.yml"))
    plan = make_plan(loaded.experiment, TESTBED, origins(loaded.document))
    wording(map(str, located_once(plan.notes, loaded.document)))
