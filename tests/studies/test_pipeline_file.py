"""Files with several operations, also of other tools, and every fault of one, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.studies import pipeline_file, pipeline_plan
from hpcdist.studies.pipeline_plan import OperationNeed, Pipeline
from tests.wording import Wording

DIAMOND = """\
kind: pipeline
params: {size: 3}
operations:
  - name: join
    needs: [left, "afterany:right"]
    run: {cmd: "cat {{ ops.left.outputs.path }}/sum"}
  - name: left
    run: {cmd: "sum {{ ops.prep.outputs.path }}/{{ params.size }}"}
  - name: right
    needs: {prep: afternotok}
    run: {cmd: repair}
  - name: prep
    run: {cmd: "prepare"}
"""
DAG = """\
version: 1.1
kind: component
name: diamond
run:
  kind: dag
  operations:
    - name: prep
      component: {run: {kind: job, container: {image: a, command: [prepare]}}}
    - name: train
      dependencies: [prep]
      trigger: all_done
      params: {data: {ref: ops.prep, value: outputs.path}}
      component:
        inputs: [{name: data, type: str}]
        run: {kind: job, container: {image: a, command: [train, "{{ data }}"]}}
"""


def read(text: str, **options: object) -> Pipeline:
    given = ExperimentOptions("runs.yml", **options)  # type: ignore[arg-type]
    return pipeline_file.read_pipeline(source.parse(text, "runs.yml"), given)


def refused(text: str, **options: object) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read(text, **options)
    return [str(problem) for problem in error.value.problems]


def needs(pipeline: Pipeline) -> dict[str, list[tuple[str, str]]]:
    return {one.name: [(need.operation, need.condition) for need in one.needs] for one in pipeline.operations}


def test_operations_stand_behind_those_that_they_need_also_by_their_outputs(wording: Wording) -> None:
    pipeline = read(DIAMOND)
    assert pipeline.name == "runs"
    assert list(needs(pipeline).items()) == [
        ("prep", []),
        ("left", [("prep", "afterok")]),
        ("right", [("prep", "afternotok")]),
        ("join", [("left", "afterok"), ("right", "afterany")]),
    ]
    assert pipeline.problems == ()
    [note] = read(DIAMOND.replace('"afterany:right"', "right")).problems
    assert note.severity == "note"
    wording(str(note))


def test_options_set_params_of_the_pipeline_and_keys_of_its_operations() -> None:
    pipeline = read(DIAMOND, params=(("size", "7"),), settings=(("prep.batch.walltime", "1h"),))
    assert pipeline.params == {"size": 7}
    assert pipeline.operations[0].options.settings == (("batch.walltime", "1h"),)
    assert refused(DIAMOND, params=(("sise", "7"),), settings=(("batch.walltime", "1h"),)) == [
        (
            "--set batch.walltime=1h: a setting of a pipeline begins with the name of an operation; "
            "write OPERATION.batch.walltime; known: join, left, prep, right"
        ),
        "-p sise=7: there is no param 'sise'; did you mean 'size'?",
    ]


def test_a_dag_of_polyaxon_is_a_pipeline(wording: Wording) -> None:
    pipeline = read(DAG)
    assert needs(pipeline) == {"prep": [], "train": [("prep", "afterany")]}
    assert pipeline.operations[1].document.data["params"] == {
        "data": {"value": "{{ ops.prep.outputs.path }}"}
    }
    wording(refused(DAG.replace("all_done", "one_done")))


@pytest.mark.parametrize("dependencies", ["[prep]", "prep", "[]"])
def test_an_operation_of_polyaxon_waits_in_its_one_way_also_for_whose_outputs_it_uses(
    dependencies: str,
) -> None:
    text = DAG.replace("dependencies: [prep]", f"dependencies: {dependencies}")
    assert needs(read(text)) == {"prep": [], "train": [("prep", "afterany")]}
    own = text.replace("trigger: all_done", "trigger: all_succeeded")
    assert needs(read(own)) == {"prep": [], "train": [("prep", "afterok")]}


WITH_INPUTS = """\
version: 1.1
kind: operation
params: {rate: {value: 0.5}}
component:
  inputs: [{name: size, type: int, value: 1000}, {name: rate, type: float}]
  run:
    kind: dag
    operations:
      - name: train
        params: {n: {ref: dag, value: inputs.size}, rate: {ref: dag, value: inputs.rate}}
        component:
          inputs: [{name: n, type: int}, {name: rate, type: float}]
          run: {kind: job, container: {image: a, command: [train, "{{ n }}", "{{ rate }}"]}}
"""


def test_inputs_of_a_dag_are_params_of_the_pipeline() -> None:
    pipeline = read(WITH_INPUTS, params=[("size", "7")])
    assert dict(pipeline.params) == {"size": 7, "rate": 0.5}
    assert pipeline.operations[0].document.data["params"] == {
        "n": {"value": "{{ params.size }}"},
        "rate": {"value": "{{ params.rate }}"},
    }


def test_a_param_of_a_dag_that_nothing_uses_is_named(wording: Wording) -> None:
    wording(map(str, read(WITH_INPUTS.replace("{rate: {", "{rate: 1, rite: {")).problems))


def test_an_input_that_a_dag_does_not_have_is_named(wording: Wording) -> None:
    wording(refused(WITH_INPUTS.replace("inputs.size", "inputs.siez")))


def test_nothing_of_a_dag_is_dropped(wording: Wording) -> None:
    text = DAG.replace(
        "run:\n", "matrix: {kind: grid}\nschedule: {kind: cron}\noutputs: []\nrun:\n  cache: 1\n", 1
    )
    wording(refused(text))


@pytest.mark.parametrize(
    "operations",
    [
        "[]",
        "[{run: {cmd: a}}, {name: 3}, {name: a b}]",
        "[{name: a, run: {cmd: x}}, {name: a, run: {cmd: y}}]",
        "[{name: prep, needs: prep}, {name: train, needs: [pre, 'singleton', 'soon:prep']}]",
        (
            "[{name: a, run: {cmd: x}}, {name: c, needs: a, dependencies: a, "
            "file: nowhere/x.yml, path: x}, {name: d, needs: [a, 'afterany:a'], run: {cmd: x}}]"
        ),
        "[{name: a, run: {cmd: '{{ ops.b.outputs }}'}}, {name: b, needs: a, file: nowhere/none.yml}]",
        "[{name: a, needs: b}, {name: b, run: {cmd: '{{ ops.c.outputs.path }}'}}, {name: c, needs: a}]",
    ],
    ids=["empty", "names", "equal names", "ways to wait", "keys given twice", "outputs", "a circle"],
)
def test_faults(operations: str, wording: Wording) -> None:
    wording(refused(f"kind: pipeline\noperations: {operations}\n"))


def test_an_operation_that_no_other_one_is_connected_with_is_a_warning(wording: Wording) -> None:
    text = "kind: pipeline\noperations: [{name: a, run: {cmd: x}}, {name: b, run: {cmd: y}}]\n"
    problems = read(text).problems
    assert {one.severity for one in problems} == {"warning"}
    wording(map(str, problems))


def test_experiments_in_files_get_params(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "train.yml").write_text("params: {data: x}\nrun: {cmd: 'train {{ data }}'}\n")
    text = "kind: pipeline\noperations: [{name: a, file: train.yml, params: {data: 3}, batch: {nodes: 2}}]\n"
    file = str(tmp_path / "runs.yml")
    with pytest.raises(ConfigError) as error:
        pipeline_file.read_pipeline(source.parse(text, file), ExperimentOptions(file))
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    document = source.parse(text.replace(", batch: {nodes: 2}", ""), file)
    [one] = pipeline_file.read_pipeline(document, ExperimentOptions(file)).operations
    assert (one.options.file, one.params) == (str(tmp_path / "train.yml"), {"data": 3})
    assert one.needs == tuple[OperationNeed]()


def test_params_of_a_file_are_keys_and_values(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "x.yml").write_text("run: {cmd: x}\n")
    text = "kind: pipeline\nparams: [1]\noperations: [{name: a, file: x.yml, params: [1, 2]}]\n"
    file = str(tmp_path / "runs.yml")
    with pytest.raises(ConfigError) as error:
        pipeline_file.read_pipeline(source.parse(text, file), ExperimentOptions(file))
    wording(str(one).replace(str(tmp_path), "TMP") for one in error.value.problems)


def test_no_container_is_for_all_operations() -> None:
    settings = (("batch.container", "false"), ("prep.batch.container", "true"))
    pipeline = read(DIAMOND, settings=settings)
    assert [one.options.settings for one in pipeline.operations[:2]] == [
        (("batch.container", "false"), ("batch.container", "true")),
        (("batch.container", "false"),),
    ]


def test_a_param_that_no_operation_uses_is_a_warning(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "x.yml").write_text("run: {cmd: 'x {{ lost }}'}\n")
    text = """\
kind: pipeline
params: {size: 1, lost: 2, given: 3}
operations:
  - {name: a, run: {cmd: "x {{ size }}"}}
  - {name: b, needs: a, file: x.yml, params: {own: "{{ params.given }}"}}
"""
    file = str(tmp_path / "runs.yml")
    found = pipeline_file.read_pipeline(source.parse(text, file), ExperimentOptions(file)).problems
    unused = [one for one in found if "param" in one.message]
    assert {one.severity for one in unused} == {"warning"}
    wording(str(one).replace(str(tmp_path), "TMP") for one in unused)


def test_what_an_operation_of_polyaxon_cannot_have_is_refused_with_what_to_write() -> None:
    text = DAG.replace("trigger: all_done", "conditions: '{{ x }} > 1'").replace(
        "    - name: prep\n      component: {run: {kind: job, container: {image: a, command: [prepare]}}}",
        "    - name: prep\n      hubRef: prepare:latest",
    )
    hub, conditions = refused(text)
    assert hub == (
        "runs.yml:8:15: run.operations[0].hubRef: `hubRef` of an operation is not known to a pipeline; it is"
        " kept in Polyaxon's hub: write it as a file next to this one, and `pathRef: ./NAME.yml`"
    )
    assert conditions == (
        "runs.yml:11:19: run.operations[1].conditions: `conditions` of an operation is not known to a"
        " pipeline; no batch system looks at values: test them in the command, or use `trigger`"
    )


def test_options_of_problems_are_those_of_the_pipeline() -> None:
    operation = read(DIAMOND).operations[0]
    name = operation.name
    found = pipeline_plan.place_problems(
        [
            Problem("no x", hint="write it under `params`, or use `-p x=VALUE` or `-p 'y=a b'`"),
            Problem("no effect: `--set environment.resources.gpu.requests=1`", hint="give --no-container"),
            Problem("wrong", place=Place("--set batch.walltme=1", 0, 0)),
            Problem("wrong", place=Place("--set batch.container=maybe", 0, 0)),
            Problem("as `hpcdist-p x`", place=Place("runs.yml", 1, 1)),
        ],
        operation,
    )
    assert found == [
        Problem(
            "no x",
            hint=f"write it under `params`, or use `--set {name}.params.x=VALUE` or "
            f"`--set '{name}.params.y=a b'`",
        ),
        Problem(
            f"no effect: `--set {name}.environment.resources.gpu.requests=1`", hint="give --no-container"
        ),
        Problem("wrong", place=Place(f"--set {name}.batch.walltme=1", 0, 0)),
        Problem("wrong", place=Place("--set batch.container=maybe", 0, 0)),
        Problem("as `hpcdist-p x`", place=Place("runs.yml", 1, 1)),
    ]
