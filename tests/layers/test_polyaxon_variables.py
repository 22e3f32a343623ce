from __future__ import annotations

import json
from typing import Any

from hpcdist.layers.variables import polyaxon_task_variables, polyaxon_variables
from hpcdist.plan.values import Origin
from tests.experiments import experiment
from tests.plans import planned
from tests.sites import site

SITE = site(volumes={"mnist": "/data/mnist", "imagenet": "/data/i"})


def variables(**data: Any) -> dict[str, str]:
    plan = planned(SITE, **data)
    return {found.name: found.value for found in polyaxon_variables(experiment(**data), plan, SITE)}


def test_every_name_old_and_new() -> None:
    found = variables(
        name="mnist",
        project="digits",
        framework="pytorch",
        params={"lr": 0.1, "flags": ["a b", None]},
        logging={"level": "DEBUG"},
        environment={"persistence": {"data": ["mnist", "unknown"]}, "data_refs": ["imagenet"]},
    )
    params = '{"lr": 0.1, "flags": ["a b", null]}'
    data = '{"mnist": "/data/mnist", "imagenet": "/data/i"}'
    info = {
        "project_name": "digits",
        "experiment_name": "digits.mnist",
        "experiment_uuid": "mnist",
        "framework": "pytorch",
        "user": None,
    }
    assert found == {
        "POLYAXON_RUN_OUTPUTS_PATH": "$HPCDIST_OUTPUTS",
        "POLYAXON_OUTPUTS_PATH": "$HPCDIST_OUTPUTS",
        "POLYAXON_LOGS_PATH": "$HPCDIST_RUN_DIR/logs",
        "POLYAXON_RUN_DATA_PATHS": data,
        "POLYAXON_DATA_PATHS": data,
        "POLYAXON_PARAMS": params,
        "POLYAXON_DECLARATIONS": params,
        "POLYAXON_LOG_LEVEL": "DEBUG",
        "POLYAXON_EXPERIMENT_INFO": json.dumps(info),
    }


def test_a_job_is_told_so() -> None:
    found = variables(kind="job")
    assert "POLYAXON_JOB_INFO" in found
    assert "POLYAXON_EXPERIMENT_INFO" not in found
    assert "POLYAXON_LOG_LEVEL" not in found


def test_paths_are_expanded_and_nothing_else_is() -> None:
    found = polyaxon_variables(experiment(params={"a": "$HOME"}), planned(SITE), SITE)
    assert {variable.name for variable in found if variable.shell} == {
        "POLYAXON_RUN_OUTPUTS_PATH",
        "POLYAXON_OUTPUTS_PATH",
        "POLYAXON_LOGS_PATH",
    }


def test_which_replica_a_task_is() -> None:
    value = r"{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
    (info,) = polyaxon_task_variables()
    assert (info.name, info.value, info.shell, info.origin) == (
        "POLYAXON_TASK_INFO",
        value,
        True,
        Origin("polyaxon"),
    )
