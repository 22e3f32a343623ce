"""Retries, policies and time limits of Polyaxon 0.x, as batch jobs have them."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source


def read(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the sections that a file has beside its command, and the remarks."""
    imported = importers.read(source.parse(f"run: {{cmd: train}}\n{text}\n", "p.yml").data)
    found = {key: value for key, value in imported.data.items() if key not in {"run", "version"}}
    return found, [remark.message for remark in imported.remarks]


def test_the_form_of_polyaxon_1_has_them_in_both_spellings() -> None:
    terms = ("{maxRetries: 3, activeDeadlineSeconds: 60}", "{max_retries: 3, active_deadline_seconds: 60}")
    run = "run: {kind: job, container: {image: i, command: [x]}, environment: {restart_policy: Never}}"
    text = f"version: 1.1\nkind: component\n{run}\ntermination: "
    found = [importers.read(source.parse(text + own, "p.yml").data) for own in terms]
    assert [(one.data["environment"], one.data["batch"]) for one in found] == [
        ({"max_restarts": 3}, {"walltime": "60s"})
    ] * 2
    assert all(remark.severity == "warning" for one in found for remark in one.remarks)


BOTH = {"environment": {"max_restarts": 3}, "batch": {"walltime": "3600s"}}
UNBOUNDED = "'on_failure' sets no bound: after a failure it is started again, 10 times at most"


@pytest.mark.parametrize(
    ("text", "sections", "remarks"),
    [
        ("termination: {max_retries: 3, timeout: 3600}", BOTH, []),
        ("termination: {maxRetries: 3, timeout: 3600}", BOTH, []),
        ("environment: {max_retries: 3, timeout: 3600}", BOTH, []),
        ("environment: {max_restarts: 3}\ntermination: {timeout: 3600}", BOTH, []),
        ("environment: {restart_policy: never}", {"environment": {}}, []),
        ("environment: {max_restarts: 2, restart_policy: always}", {"environment": {"max_restarts": 2}}, []),
        ("termination: {restartPolicy: OnFailure, max_retries: 2}", {"environment": {"max_restarts": 2}}, []),
        ("environment: {restart_policy: on_failure}", {"environment": {"max_restarts": 10}}, [UNBOUNDED]),
        ("environment: {max_restarts: 2, max_retries: 3}", {"environment": {"max_restarts": 2}},
         ["`environment.max_restarts` is the same"]),
        ("batch: {walltime: 1h}\ntermination: {timeout: 60, ttl: 5}", {"batch": {"walltime": "1h"}},
         ["`batch.walltime` is the same", "'ttl' has no effect: what a job leaves is kept"]),
        ("environment: {restart_policy: often}", {"environment": {}}, ["'often' is no policy of restarts"]),
        ("environment: {restart_policy: never, max_restarts: 2}", {"environment": {"max_restarts": 2}},
         ["'never', and there are restarts"]),
        ("termination: {after: 3}", {}, ["unknown key"]),
    ],
)  # fmt: skip
def test_they_become_restarts_and_a_walltime(text: str, sections: dict[str, Any], remarks: list[str]) -> None:
    assert read(text) == (sections, remarks)
