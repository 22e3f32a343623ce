"""Submitting pipelines exactly once, taking them back and resuming them, with a Slurm of a few functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hpcdist.base import source
from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import ConfigError, PlanError, Problem, SchedulerError, SubmissionUnknown, warning
from hpcdist.base.tree import Document
from hpcdist.loading import planning as loading
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.runs import finding, submission
from hpcdist.runs.rundir import Run
from hpcdist.runs.submission import SubmitOutput, SubmitRequest
from hpcdist.searches.replan import Changes
from hpcdist.searches.resume import resume, run_again
from hpcdist.studies import pipeline_file, pipeline_plan, pipeline_runs, pipeline_submit
from hpcdist.studies.pipeline_plan import PlannedOperation
from hpcdist.studies.pipeline_runs import PipelinePhase, StoredPipeline
from hpcdist.studies.pipeline_submit import PipelineRequest, with_outputs
from hpcdist.testing import TIMED_OUT, FakeShell, failed
from tests.runs.test_submission import Killed, Queue
from tests.wording import Wording

TEXT = """\
kind: pipeline
name: diamond
operations:
  - name: prep
    run: {cmd: prepare}
  - name: left
    run: {cmd: "sum {{ ops.prep.outputs.path }}"}
  - name: right
    needs: prep
    batch: {dependency: "afterany:7"}
    run: {cmd: repair}
  - name: join
    needs: {left: afterok, right: afterany}
    run: {cmd: join}
"""
REFUSED = "sbatch: error: Batch job submission failed: Invalid qos"
OPTIONS = ExperimentOptions("diamond.yml", site="slurm")


def plan(options: ExperimentOptions, document: Document, awaiting: Awaiting) -> Planned:
    return loading.plan_experiment(options, {}, document, awaiting)


class Person:
    """Somebody who submits the pipeline; ``notes`` is what was printed beside the runs."""

    def __init__(self, runs: Path, text: str = TEXT) -> None:
        self.runs, self.queue, self.notes = runs, Queue(), list[str]()
        self.queue.programs["sh"] = lambda command: failed(128, "no git")._replace(command=command)
        self.queue.shell = FakeShell([((name,), self.queue.answer) for name in self.queue.programs])
        self.pipeline = pipeline_file.read_pipeline(source.parse(text, "diamond.yml"), OPTIONS)

    def submit(self, *, again: bool = False) -> tuple[StoredPipeline, dict[str, Run]]:
        services, output = self.queue.services, SubmitOutput(note=self.notes.append)
        request = PipelineRequest(self.pipeline, OPTIONS, self.runs, plan)
        pipeline_submit.plan(request)

        def submit_run(request: SubmitRequest, made: Planned, output: SubmitOutput) -> Run:
            del made
            return submission.submit(request, self.runs, services, output)

        return pipeline_submit.submit(request, "slurm", services, submit_run, output, again=again)

    def resume(self, stored: StoredPipeline) -> list[str]:
        output = SubmitOutput(note=self.notes.append)
        found = pipeline_submit.resume(stored, self.queue.services, output, run_again)
        return [run.record.operation for run in found]

    def script(self, name: str, job: str = "job.sh") -> list[str]:
        text = (self.runs / name / job).read_text()
        return [line for line in text.splitlines() if "--dependency" in line or "invalid-dep" in line]

    @property
    def states(self) -> dict[str, str]:
        found = pipeline_runs.find_pipeline(self.runs, "diamond-1")
        assert found
        return {
            node.name: node.state.value for node in pipeline_runs.operation_states(found, self.queue.services)
        }


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "runs")


def test_operations_are_submitted_in_order_with_the_dependencies_of_their_jobs(person: Person) -> None:
    stored, found = person.submit()
    assert [(name, run.name, run.record.job_id) for name, run in found.items()] == [
        ("prep", "diamond-1-prep-1", "100"),
        ("left", "diamond-1-left-1", "101"),
        ("right", "diamond-1-right-1", "102"),
        ("join", "diamond-1-join-1", "103"),
    ]
    ends = "#SBATCH --kill-on-invalid-dep=yes"
    assert person.script("diamond-1-prep-1") == []
    assert person.script("diamond-1-left-1") == ["#SBATCH --dependency=afterok:100", ends]
    assert person.script("diamond-1-right-1") == ["#SBATCH --dependency=afterany:7,afterok:100", ends]
    assert person.script("diamond-1-join-1") == ["#SBATCH --dependency=afterok:101,afterany:102", ends]
    assert f"sum {person.runs}/diamond-1-prep-1/outputs" in (found["left"].directory.script).read_text()
    assert pipeline_runs.find_pipeline(person.runs, "diamond-1") == stored
    assert (stored.phase, finding.find(person.runs, "diamond-1/left").name) == (
        PipelinePhase.SUBMITTED,
        "diamond-1-left-1",
    )
    assert person.submit()[0].name == "diamond-2"


@pytest.mark.parametrize("saves", range(1, 24, 2))
def test_a_submission_that_is_killed_anywhere_is_gone_on_with(tmp_path: Path, saves: int) -> None:
    person = Person(tmp_path / "runs")
    person.queue.last_save = saves
    try:
        person.submit()
    except Killed:
        person.queue.last_save = 1000
        stored, _ = person.submit()
        assert stored.name == "diamond-1"
    assert sorted(person.queue.jobs) == ["100", "101", "102", "103"]
    assert set(person.states.values()) == {"pending"}


def test_a_refused_operation_takes_back_the_others(person: Person) -> None:
    queue = person.queue
    accept, answers = queue.sbatch, iter(range(3))

    def sbatch(command: Command) -> Completed:
        if next(answers) < 2:
            return accept(command)
        return failed(1, REFUSED)._replace(command=command)

    queue.programs["sbatch"] = sbatch
    with pytest.raises(SchedulerError, match="Invalid qos"):
        person.submit()
    assert queue.jobs == {"100": "CANCELLED", "101": "CANCELLED"}
    assert person.notes == [
        "diamond-1-prep-1, diamond-1-left-1: taken back, requested to cancel what was submitted of diamond-1"
    ]
    queue.programs["sbatch"] = accept
    assert person.submit()[0].name == "diamond-2"


def test_what_cannot_be_taken_back_is_named(person: Person) -> None:
    queue, count = person.queue, iter(range(9))
    accept = queue.sbatch
    queue.programs["sbatch"] = lambda command: (
        accept(command) if next(count) < 1 else failed(1, REFUSED)._replace(command=command)
    )
    queue.answers["scancel"] = failed(1, "scancel: error: slurmctld is down")
    with pytest.raises(SchedulerError):
        person.submit()
    [note] = person.notes
    assert note.startswith("diamond-1-prep-1 may still run: the jobs could not be cancelled: ")


def test_after_a_lost_answer_nothing_is_cancelled_and_the_next_submission_goes_on(person: Person) -> None:
    queue, accept = person.queue, person.queue.sbatch

    def lost(command: Command) -> Completed:
        accepted = accept(command)
        return accepted if len(queue.jobs) < 2 else TIMED_OUT._replace(command=command)

    queue.programs["sbatch"] = lost
    shown = queue.programs.pop("squeue")
    queue.programs["squeue"] = lambda command: failed(1, "down")._replace(command=command)
    with pytest.raises(SubmissionUnknown):
        person.submit()
    assert (queue.jobs, person.notes[-1]) == (
        {"100": "PENDING", "101": "PENDING"},
        "diamond-1 is not submitted as a whole; submit the same file again to complete it",
    )
    queue.programs |= {"sbatch": accept, "squeue": shown}
    assert person.submit()[0].name == "diamond-1"
    assert sorted(queue.jobs) == ["100", "101", "102", "103"]


def test_resuming_runs_again_what_did_not_end_well_and_what_depends_on_it(person: Person) -> None:
    stored, _ = person.submit()
    with pytest.raises(ConfigError, match="every operation of diamond-1 has completed, or is still to run"):
        person.resume(stored)
    person.queue.jobs |= {"100": "COMPLETED", "101": "FAILED", "102": "COMPLETED", "103": "PENDING"}
    nodes = pipeline_runs.operation_states(stored, person.queue.services)
    assert [node.blocked_by for node in nodes] == ["", "", "", "left is failed"]
    assert person.resume(stored) == ["diamond-1/left", "diamond-1/join"]
    assert person.script("diamond-1-left-1", "job.2.sh") == []
    ends = "#SBATCH --kill-on-invalid-dep=yes"
    assert person.script("diamond-1-join-1", "job.2.sh") == ["#SBATCH --dependency=afterok:104", ends]
    assert person.queue.jobs["103"] == "CANCELLED"
    assert person.states == {"prep": "completed", "left": "pending", "right": "completed", "join": "pending"}
    with pytest.raises(ConfigError, match="has completed, or is still to run"):
        person.resume(stored)


REPAIRED = """\
kind: pipeline
name: diamond
operations:
  - {name: prep, run: {cmd: prepare}}
  - {name: repair, needs: {prep: afternotok}, run: {cmd: repair}}
  - {name: check, needs: repair, run: {cmd: check}}
  - {name: train, needs: prep, run: {cmd: train}}
  - {name: join, needs: {train: afterok, repair: afterany}, run: {cmd: join}}
"""


def test_what_waits_for_a_failure_that_did_not_come_was_not_needed(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs", REPAIRED)
    stored, _ = person.submit()
    person.queue.jobs |= dict.fromkeys(("100", "102", "104"), "COMPLETED")
    person.queue.jobs |= dict.fromkeys(("101", "103"), "CANCELLED")
    nodes = pipeline_runs.operation_states(stored, person.queue.services)
    assert [(node.name, node.reason) for node in nodes if not node.is_needed] == [
        ("repair", "not needed: prep is completed"),
        ("check", "not needed: repair never ran"),
    ]
    assert pipeline_runs.summary("diamond-1", nodes) == "diamond-1: 3 completed, 2 not needed"
    reports = [node.report for node in nodes if node.report]
    assert {where.name for where in pipeline_runs.unneeded_runs(reports)} == {
        "diamond-1-repair-1",
        "diamond-1-check-1",
    }
    assert pipeline_runs.unneeded_runs(reports[1:]) == set()
    with pytest.raises(ConfigError, match="every operation of diamond-1 has completed, or is still to run"):
        person.resume(stored)


def test_resuming_leaves_out_what_is_not_needed_and_takes_what_waits_for_what_runs_again(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "runs", REPAIRED)
    stored, _ = person.submit()
    person.queue.jobs |= {"100": "COMPLETED", "101": "CANCELLED", "102": "FAILED", "103": "CANCELLED"}
    assert person.resume(stored) == ["diamond-1/train", "diamond-1/join"]
    person.queue.jobs |= {"105": "COMPLETED", "106": "COMPLETED"}
    assert person.states["join"] == "completed"
    failed_first = Person(tmp_path / "others", REPAIRED)
    stored, _ = failed_first.submit()
    failed_first.queue.jobs |= {"100": "FAILED", "101": "FAILED"}
    failed_first.queue.jobs |= dict.fromkeys(("102", "103", "104"), "CANCELLED")
    assert failed_first.resume(stored) == [f"diamond-1/{name}" for name in stored.needs]
    assert "#SBATCH --dependency=afternotok:105" in failed_first.script("diamond-1-repair-1", "job.2.sh")


def test_an_operation_that_is_mended_may_name_the_outputs_of_those_it_needs(
    person: Person, wording: Wording
) -> None:
    _, found = person.submit()
    person.queue.jobs |= {"100": "COMPLETED", "101": "FAILED", "102": "FAILED", "103": "CANCELLED"}
    text = "sort -n {{ ops.prep.outputs.path }}"

    def changed(name: str, text: str) -> Changes:
        params, settings = with_outputs(found[name], (("data", text),), (("run.cmd", text),))
        return Changes(params, settings)

    own = changed("left", text)._replace(params=())
    resume(found["left"], person.queue.services, SubmitOutput(), own)
    assert f"sort -n {person.runs}/diamond-1-prep-1/outputs" in (
        (person.runs / "diamond-1-left-1" / "job.2.sh").read_text()
    )
    sides = "{{ ops.prep.outputs.path }} {{ ops.left.outputs.path }} {{ params.size }} {{ size }}"
    (param,) = changed("join", sides).params
    outputs = [person.runs / f"diamond-1-{name}-1" / "outputs" for name in ("prep", "left")]
    assert param == ("data", f"{outputs[0]} {outputs[1]} {{{{ params.size }}}} {{{{ size }}}}")
    assert changed("prep", "plain") == Changes((("data", "plain"),), (("run.cmd", "plain"),))
    refused = []
    for name, text in (("left", "{{ ops.right.outputs.path }}"), ("left", "{{ ops.prep.outputs }}")):
        with pytest.raises(ConfigError) as error:
            changed(name, text)
        refused.append(str(error.value))
    wording("\n".join(refused))


def test_what_a_batch_system_cannot_wait_for_is_refused_at_the_need(tmp_path: Path, wording: Wording) -> None:
    runs = pipeline_plan.expected_runs(Person(tmp_path).pipeline, "diamond-1", tmp_path)
    options = OPTIONS._replace(site="sge")
    pipeline = pipeline_file.read_pipeline(source.parse(TEXT, "diamond.yml"), options)
    with pytest.raises(PlanError) as error:
        pipeline_plan.plan_operations(pipeline, "diamond-1", runs, plan)
    wording(str(problem) for problem in error.value.problems if problem.severity == "error")


def test_what_is_wrong_with_the_machine_stands_once_among_the_errors(tmp_path: Path) -> None:
    pipeline = Person(tmp_path).pipeline
    problems = (warning("no Slurm is set up"), Problem("it is too small"))

    def refused(*_: object) -> Planned:
        raise PlanError(*problems)

    with pytest.raises(PlanError) as error:
        pipeline_plan.plan_operations(
            pipeline, "diamond-1", pipeline_plan.expected_runs(pipeline, "diamond-1", tmp_path), refused
        )
    assert error.value.problems == problems


def test_what_needs_each_other_is_on_one_machine(tmp_path: Path, wording: Wording) -> None:
    text = TEXT.replace("    needs: prep\n    batch: {", "    needs: prep\n    batch: {site: pbs, ")
    pipeline = pipeline_file.read_pipeline(source.parse(text, "diamond.yml"), OPTIONS._replace(site=None))
    settings = dict.fromkeys(("prep", "left", "join"), (("batch.site", "slurm"),))
    operations = tuple(
        one._replace(options=one.options._replace(settings=settings.get(one.name, ())))
        for one in pipeline.operations
    )
    runs = pipeline_plan.expected_runs(pipeline, "diamond-1", tmp_path)
    with pytest.raises(PlanError) as error:
        pipeline_plan.plan_operations(pipeline._replace(operations=operations), "diamond-1", runs, plan)
    wording(map(str, error.value.problems))


SEARCH = """\
kind: pipeline
operations:
  - name: tune
    run: {cmd: "train {{ lr }}"}
    hptuning:
      matrix: {lr: {uniform: [0, 1]}}
      bo: {n_initial_trials: 2, n_iterations: 2, metric: {name: loss}}
  - name: report
    needs: {tune: afterany}
    run: {cmd: "report"}
  - {name: watch, needs: {tune: after}, run: {cmd: watch}}
"""


def test_what_would_begin_after_one_generation_of_a_search_is_refused_at_the_need(
    tmp_path: Path, wording: Wording
) -> None:
    pipeline = pipeline_file.read_pipeline(source.parse(SEARCH, "d.yml"), OPTIONS)
    runs = pipeline_plan.expected_runs(pipeline, "d-1", tmp_path)
    with pytest.raises(PlanError) as error:
        pipeline_plan.plan_operations(pipeline, "d-1", runs, plan)
    wording(map(str, error.value.problems))
    without = SEARCH.replace("    needs: {tune: afterany}\n", "")
    alone = pipeline_file.read_pipeline(source.parse(without, "d.yml"), OPTIONS)
    assert len(pipeline_plan.plan_operations(alone, "d-1", runs, plan)) == 3


def test_params_of_a_file_keep_their_types(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text("params: {note: 1, size: 1, rate: 1, data: 1}\nrun: {cmd: x}\n")
    text = """\
kind: pipeline
params: {size: 10}
operations:
  - {name: prep, run: {cmd: prepare}}
  - name: train
    file: x.yml
    params: {note: "null", size: "{{ params.size }}", rate: 1.10, data: "{a: {{ ops.prep.outputs.path }}}"}
"""
    pipeline = pipeline_file.read_pipeline(source.parse(text, str(tmp_path / "d.yml")), OPTIONS)
    runs = pipeline_plan.expected_runs(pipeline, "d-1", tmp_path)
    params = pipeline_plan.plan_operations(pipeline, "d-1", runs, plan)[1].made.experiment.params
    path = f"{{a: {tmp_path}/d-1-prep-1/outputs}}"
    assert {**params} == {"note": "null", "size": 10, "rate": 1.1, "data": path}


SYSTEMS = {
    "pbs": "#PBS -W depend=afterok:2,afterany:3",
    "lsf": '#BSUB -w "done(2) && ended(3)"',
    "flux": "#flux: --dependency=afterok:f3",
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_dependencies_of_other_batch_systems(tmp_path: Path, name: str) -> None:
    options = OPTIONS._replace(site=name)
    pipeline = pipeline_file.read_pipeline(source.parse(TEXT, "diamond.yml"), options)
    steps = pipeline_plan.plan_operations(
        pipeline, "diamond-1", pipeline_plan.expected_runs(pipeline, "diamond-1", tmp_path), partial(plan)
    )
    assert SYSTEMS[name] in [*lines(steps[-1])]


def lines(step: PlannedOperation) -> Iterator[str]:
    from hpcdist.script.renderer import render

    yield from (line for line in render(step.made.plan).splitlines() if "depend" in line or "-w" in line)


def test_a_search_that_goes_on_is_shown_so_when_one_generation_has_completed(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs", SEARCH.replace("    needs: {tune: afterany}\n", ""))
    stored, _ = person.submit()
    person.queue.jobs["100"] = "COMPLETED"
    [tune, *_] = pipeline_runs.operation_states(stored, person.queue.services)
    next_step = "`hpcdist sweep advance diamond-1-tune-1 --wait` continues"
    assert tune.reason == f"2 of at most 4 trials; {next_step}"
