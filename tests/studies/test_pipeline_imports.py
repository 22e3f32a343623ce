"""Pipelines of other tools whose documents have several jobs: Azure ML's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading import planning as loading
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.studies import pipeline_file, pipeline_plan
from hpcdist.studies.pipeline_plan import Pipeline
from tests.importers.test_azure_steps import COMPONENT, PIPELINE
from tests.studies.test_pipeline_file import needs
from tests.studies.test_pipeline_submit import plan
from tests.wording import Wording

AZURE = PIPELINE.replace("  other: {type: spark}\n", "")
SETTINGS = (("batch.container", "false"),)


def read(text: str, file: str = "p.yml") -> Pipeline:
    document = source.parse(text, file)
    assert pipeline_file.is_pipeline(document)
    return pipeline_file.read_pipeline(document, ExperimentOptions(file, site="slurm", settings=SETTINGS))


def refused(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read(text)
    return [str(problem) for problem in error.value.problems]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs/parts").mkdir(parents=True)
    (tmp_path / "jobs/parts/train.yml").write_text(COMPONENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_step_of_azure_waits_for_those_whose_outputs_it_reads(here: Path) -> None:
    pipeline = read(AZURE, "jobs/p.yml")
    assert (pipeline.name, needs(pipeline)) == ("All", {"prepare": [], "train": [("prepare", "afterok")]})
    runs = pipeline_plan.expected_runs(pipeline, "All-1", here / "runs")
    prepare, train = pipeline_plan.plan_operations(pipeline, "All-1", runs, plan)
    assert {**prepare.made.experiment.params} == {"data": "jobs/data", "rate": 1.5}
    clean = f"{here}/runs/All-1-prepare-1/outputs/out"
    assert {**train.made.experiment.params} == {"clean": clean, "rate": 1.5, "rounds": 4}
    assert 'prepare "$submitted_in/"' in str(prepare.made.experiment.run.cmd)
    unused = [
        str(one)
        for step in (prepare, train)
        for one in step.made.problems
        if "step does not use" in one.message
    ]
    assert unused == []


def test_the_record_of_a_step_has_its_component(here: Path) -> None:
    """It is read again when the run is resumed, from the folder of the run."""
    pipeline = read(AZURE, "jobs/p.yml")
    runs = pipeline_plan.expected_runs(pipeline, "All-1", here / "runs")
    step = pipeline_plan.plan_operations(pipeline, "All-1", runs, plan)[1]
    document = source.parse(step.text, "runs/All-1-train-1/experiment.yml")
    again = loading.loaded(step.options._replace(settings=SETTINGS), document).experiment
    assert (again.params, again.framework) == (step.made.experiment.params, "mpi")


def test_a_document_of_one_job_is_an_experiment() -> None:
    alone = AZURE[: AZURE.index("  train:")]
    assert not pipeline_file.is_pipeline(source.parse(alone, "p.yml"))


@pytest.mark.parametrize(
    "text",
    [
        PIPELINE,
        AZURE.replace("jobs.prepare.outputs.out", "jobs.prepar.outputs.out"),
        AZURE.replace("jobs.prepare.outputs.out", "jobs.prepare.outputs.aut"),
        AZURE.replace("jobs.prepare.outputs.out", "jobs.prepare.status"),
    ],
    ids=[
        "a step of Spark",
        "an unknown step",
        "an unknown output",
        "no output",
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(text: str, wording: Wording) -> None:
    wording(refused(text))
