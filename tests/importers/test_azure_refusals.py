# ruff: noqa: E501 - a file is written as one line
"""What a file of Azure ML cannot mean here is refused, with its place and what to write instead."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.importers.azure import IMPORTER
from hpcdist.loading.load import load_experiment
from tests.importers.remarks import cases
from tests.wording import Wording

JOB = "type: command\ncommand: x\nenvironment: {image: i}\n"


@pytest.mark.parametrize(
    "text",
    [
        "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\ntype: pipeline\njobs: {a: {command: x}, b: {command: y}}\n",
        "type: pipeline\njobs: {a: {type: spark}, b: {type: spark_job}, c: {type: automl}}\n",
        "type: pipeline\njobs: {a: 5}\n",
        "type: pipeline\njobs: {a: {component: 'azureml:x:1'}}\n",
        "type: pipeline\njobs: {a: {component: {type: parallel, task: {}}}}\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/sparkJob.schema.json\ntype: spark\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/environment.schema.json\nname: e\nimage: i\n",
        "type: ScopeComponent\nname: x\n",
        "type: MpiJob\nlauncher: {spec: x}\n",
        "jobType: mpi\nimplementation: {}\n",
        "type: command\nenvironment: {image: i}\n",
        JOB + "distribution: {type: ray, worker_node_additional_args: --verbose}\n",
        JOB + "distribution: {type: mpirun}\n",
        JOB + "distribution: {process_count_per_instance: 2}\n",
        JOB + "distribution: {type: mpi, process_count_per_instance: 2, mca: x}\n",
        JOB + "distribution: {type: mpi, process_count_per_instance: all}\n",
        JOB + "distribution: {type: pytorch, process_count: 3}\nresources: {instance_count: 2}\n",
        JOB + "distribution: {type: tensorflow, process_count_per_instance: 2}\n",
        JOB + "distribution: {type: tensorflow, worker_count: none}\n",
        JOB + "distribution: mpi\n",
        JOB + "distributed: {mpi: {worker: {count: 2}}}\n",
        JOB + "resources: {instance_count: 2}\n",
        JOB
        + "resources: {instance_count: 2}\ncompute: {target: a, node_count: 3}\ndistribution: {type: mpi}\n",
        "type: command\ncommand: torchrun x.py\nenvironment: {image: i}\ndistribution: {type: pytorch, process_count_per_instance: 8}\n",
        "type: command\ncommand: echo ${{search_space.lr}} ${{inputs.epoch}} {outputs.o}\nenvironment: {image: i}\ninputs: {epochs: 1}\n",
        JOB + "environment_variables: {TOKEN: '${{ secrets.TOKEN }}', A: 'x${{secrets.B}}'}\n",
        JOB + "inputs: [a]\n",
        JOB + "inputs: {a: [1]}\n",
        JOB + "inputs: {a: {type: uri_foldr}}\n",
        JOB + "inputs: {a: {type: integer, default: ten}}\n",
        JOB + "inputs: {a: {type: integer, default: 10, max: 5}}\n",
        JOB + "inputs: {a: {type: uri_file, path: 5}}\n",
        JOB + "inputs: {a-b: 1, a_b: 2}\n",
        JOB + "inputs: {a: {type: string, enum: x}}\n",
        JOB + "limits: {timeout: soon}\n",
        JOB + "environment_variables: {A: '${{inputs.x}}', B: [1]}\n",
        JOB + "environment_variables: {HPCDIST_RANK: 1}\n",
        "type: command\ncommand: x\nenvironment: {image: i, os: Windows}\n",
        JOB + "successful_return_code: ZeroOrGreater\n",
        JOB + "component: file:x.yml\n",
        JOB + "colour: red\nresources: {instances: 2}\n",
        JOB + "name: [a]\n",
    ],
    ids=cases(JOB),
)
def test_keys_without_equivalent_are_refused(text: str, wording: Wording) -> None:
    document = source.parse(text, "job.yml")
    assert IMPORTER.recognises(document.data)
    with pytest.raises(ConfigError) as caught:
        load_experiment(document)
    wording(str(problem) for problem in caught.value.problems if problem.severity == "error")


@pytest.mark.parametrize(
    "text",
    [
        "run: {cmd: x}\nenvironment: {resources: {}}\n",
        "version: 1\nkind: experiment\ncommand: x\nenvironment: {resources: {}}\n",
        "command: x\nenvironment: {resources: {}}\n",
        "apiVersion: kubeflow.org/v1\nkind: MPIJob\n",
        "kind: mpijob\nspec: {command: x}\n",
        "version: 1.1\nkind: component\ntype: component\n",
        "name: a\ncommand: x\nmachineType: P5000\nexperimentType: GRPC\n",
    ],
)
def test_files_of_other_forms_are_not_recognised(text: str) -> None:
    assert not IMPORTER.recognises(source.parse(text, "job.yml").data)
