# ruff: noqa: E501 - a message is compared as one line
"""What a file of Azure ML cannot mean here is refused, with its place and what to write instead."""

from __future__ import annotations

import pytest

from hpcdist.documents import source
from hpcdist.errors import ConfigError
from hpcdist.importers.azure import IMPORTER
from hpcdist.loading.load import load_experiment

JOB = "type: command\ncommand: x\nenvironment: {image: i}\n"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\ntype: pipeline\njobs: {a: {command: x}, b: {command: y}}\n",
            [
                "job.yml:2:7: type: a pipeline is many jobs; choose a step with `--name a` (a, b); `hpcdist submit` takes all of them as a pipeline",
            ],
        ),
        (
            "type: pipeline\njobs: {a: {type: spark}, b: {type: spark_job}, c: {type: automl}}\n",
            [
                "job.yml:2:1: jobs: no step of this pipeline is a command, but automl, spark",
            ],
        ),
        (
            "type: pipeline\njobs: {a: 5}\n",
            [
                "job.yml:1:7: type: a pipeline is many jobs; give the file that has its steps as `jobs`",
            ],
        ),
        (
            "type: pipeline\njobs: {a: {component: 'azureml:x:1'}}\n",
            [
                "job.yml:2:23: jobs.a.component: the component 'azureml:x:1' is kept in Azure; write its command, inputs, code and environment here",
            ],
        ),
        (
            "type: pipeline\njobs: {a: {component: {type: parallel, task: {}}}}\n",
            [
                "job.yml:2:30: component: this component is of the type 'parallel', which is not run; supported: `type: command` and `sweep`, CommandComponent, DistributedComponent",
            ],
        ),
        (
            "$schema: https://azuremlschemas.azureedge.net/latest/sparkJob.schema.json\ntype: spark\n",
            [
                "job.yml:2:7: type: this is 'spark' of Azure ML, which is not run; supported: `type: command` and `sweep`, CommandComponent, DistributedComponent",
            ],
        ),
        (
            "$schema: https://azuremlschemas.azureedge.net/latest/environment.schema.json\nname: e\nimage: i\n",
            [
                "job.yml:1:10: $schema: this is an environment of Azure ML, which is not run; name its image in `environment` of the job",
            ],
        ),
        (
            "type: ScopeComponent\nname: x\n",
            [
                "job.yml:1:7: type: this is 'ScopeComponent' of Azure ML, which is not run; supported: `type: command` and `sweep`, CommandComponent, DistributedComponent",
            ],
        ),
        (
            "type: MpiJob\nlauncher: {spec: x}\n",
            [
                "job.yml:1:7: type: this is 'MpiJob' of Azure ML, which is not run; supported: `type: command` and `sweep`, CommandComponent, DistributedComponent",
            ],
        ),
        (
            "jobType: mpi\nimplementation: {}\n",
            [
                "job.yml:1:10: jobType: modules, which preceded components, are not supported; supported: `type: command` and `sweep`, CommandComponent, DistributedComponent",
            ],
        ),
        (
            "type: command\nenvironment: {image: i}\n",
            [
                "job.yml:1:1: command: there is no command; write the command to run",
            ],
        ),
        (
            JOB + "distribution: {type: ray, worker_node_additional_args: --verbose}\n",
            [
                "job.yml:4:56: distribution.worker_node_additional_args: options of `ray start` can be given for the head, or for all nodes; write the same in head_node_additional_args, or remove it",
            ],
        ),
        (
            JOB + "distribution: {type: mpirun}\n",
            [
                "job.yml:4:22: distribution.type: unknown distribution 'mpirun'; known: mpi, pytorch, ray, tensorflow, torch.distributed",
            ],
        ),
        (
            JOB + "distribution: {process_count_per_instance: 2}\n",
            [
                "job.yml:4:1: distribution: the kind of distribution is missing; write `type: mpi`",
            ],
        ),
        (
            JOB + "distribution: {type: mpi, process_count_per_instance: 2, mca: x}\n",
            [
                "job.yml:4:58: distribution.mca: unknown key 'distribution.mca'; remove it",
            ],
        ),
        (
            JOB + "distribution: {type: mpi, process_count_per_instance: all}\n",
            [
                "job.yml:4:55: distribution.process_count_per_instance: expected a whole number of 1 or more, got 'all'",
            ],
        ),
        (
            JOB + "distribution: {type: pytorch, process_count: 3}\nresources: {instance_count: 2}\n",
            [
                "job.yml:4:46: distribution.process_count: 3 processes cannot be divided evenly among 2 instances; write `process_count_per_instance`",
            ],
        ),
        (
            JOB + "distribution: {type: tensorflow, process_count_per_instance: 2}\n",
            [
                "job.yml:4:62: distribution.process_count_per_instance: a task of TensorFlow is one process; write `worker_count`",
            ],
        ),
        (
            JOB + "distribution: {type: tensorflow, worker_count: none}\n",
            [
                "job.yml:4:48: distribution.worker_count: expected a whole number of 1 or more, got 'none'",
            ],
        ),
        (
            JOB + "distribution: mpi\n",
            [
                "job.yml:4:15: distribution: expected keys and values; write `key: value`",
            ],
        ),
        (
            JOB + "distributed: {mpi: {worker: {count: 2}}}\n",
            [
                "job.yml:4:1: distributed: this form, of the first previews, is not supported; write `distribution: {type: mpi, process_count_per_instance: N}`",
            ],
        ),
        (
            JOB + "resources: {instance_count: 2}\n",
            [
                "job.yml:4:29: resources.instance_count: the file does not say what 2 instances do; write `distribution: {type: mpi}` (or pytorch, tensorflow)",
            ],
        ),
        (
            JOB
            + "resources: {instance_count: 2}\ncompute: {target: a, node_count: 3}\ndistribution: {type: mpi}\n",
            [
                "job.yml:5:34: compute.node_count: compute.node_count is 3 here and 2 elsewhere",
            ],
        ),
        (
            "type: command\ncommand: torchrun x.py\nenvironment: {image: i}\ndistribution: {type: pytorch, process_count_per_instance: 8}\n",
            [
                "job.yml:4:59: distribution.process_count_per_instance: torchrun starts the processes of an instance itself, and Azure would run it 8 times; write 1 here, and the number in the command",
            ],
        ),
        (
            "type: command\ncommand: echo ${{search_space.lr}} ${{inputs.epoch}} {outputs.o}\nenvironment: {image: i}\ninputs: {epochs: 1}\n",
            [
                "job.yml:2:10: command: '${{search_space.lr}}' is not defined here; write the value itself",
                "job.yml:2:10: command: '${{inputs.epoch}}' is not defined here; did you mean 'epochs'?",
                "job.yml:2:10: command: '{outputs.o}' is not defined here",
            ],
        ),
        (
            JOB + "environment_variables: {TOKEN: '${{ secrets.TOKEN }}', A: 'x${{secrets.B}}'}\n",
            [
                "job.yml:4:59: environment_variables.A: 'x${{secrets.B}}' is not expanded here; write it in the command",
            ],
        ),
        (
            JOB + "inputs: [a]\n",
            [
                "job.yml:4:1: inputs: expected keys and values; write `key: value`",
            ],
        ),
        (
            JOB + "inputs: {a: [1]}\n",
            [
                "job.yml:4:10: inputs.a: an input is not a list; write one value, or a section",
            ],
        ),
        (
            JOB + "inputs: {a: {type: uri_foldr}}\n",
            [
                "job.yml:4:10: inputs[0]: the input 'a' is required but has no param; write it under `params`, or use `-p a=VALUE`",
                "job.yml:4:20: inputs.a.type: unknown type 'uri_foldr'; did you mean 'uri_folder'?",
            ],
        ),
        (
            JOB + "inputs: {a: {type: integer, default: ten}}\n",
            [
                "job.yml:4:38: inputs.a.default: expected a whole number, got 'ten'",
            ],
        ),
        (
            JOB + "inputs: {a: {type: integer, default: 10, max: 5}}\n",
            [
                "job.yml:4:38: inputs.a.default: the default 10 is beyond the max of 5",
            ],
        ),
        (
            JOB + "inputs: {a: {type: uri_file, path: 5}}\n",
            [
                "job.yml:4:10: inputs[0]: the input 'a' is required but has no param; write it under `params`, or use `-p a=VALUE`",
                "job.yml:4:36: inputs.a.path: expected a path, got 5",
            ],
        ),
        (
            JOB + "inputs: {a-b: 1, a_b: 2}\n",
            [
                "job.yml:4:23: inputs.a_b: another input has the name a_b too; rename one",
            ],
        ),
        (
            JOB + "inputs: {a: {type: string, enum: x}}\n",
            [
                "job.yml:4:10: inputs[0]: the input 'a' is required but has no param; write it under `params`, or use `-p a=VALUE`",
                "job.yml:4:34: inputs.a.enum: expected a list of choices",
            ],
        ),
        (
            JOB + "limits: {timeout: soon}\n",
            [
                "job.yml:4:19: limits.timeout: expected a number of seconds, got 'soon'",
            ],
        ),
        (
            JOB + "environment_variables: {A: '${{inputs.x}}', B: [1]}\n",
            [
                "job.yml:4:28: environment_variables.A: '${{inputs.x}}' is not expanded here; write it in the command",
                "job.yml:4:45: environment_variables.B: a variable is text",
            ],
        ),
        (
            JOB + "environment_variables: {HPCDIST_RANK: 1}\n",
            [
                "job.yml:4:39: environment.env_vars.HPCDIST_RANK: the variable HPCDIST_RANK is reserved for hpcdist",
            ],
        ),
        (
            "type: command\ncommand: x\nenvironment: {image: i, os: Windows}\n",
            [
                "job.yml:3:29: environment.os: batch machines run Linux; write `os: Linux`",
            ],
        ),
        (
            JOB + "successful_return_code: ZeroOrGreater\n",
            [
                "job.yml:4:25: successful_return_code: a job has succeeded when its exit code is 0; end the command with `|| true`",
            ],
        ),
        (
            JOB + "component: file:x.yml\n",
            [
                "job.yml:4:12: component: 'x.yml' cannot be read: there is no such file; write its path, beginning at the folder of this file or of its repository",
            ],
        ),
        (
            JOB + "colour: red\nresources: {instances: 2}\n",
            [
                "job.yml:4:1: colour: unknown key 'colour'; remove it",
                "job.yml:5:1: resources: unknown key 'resources'; remove it",
            ],
        ),
        (
            JOB + "name: [a]\n",
            [
                "job.yml:4:1: name: expected text",
            ],
        ),
    ],
)
def test_keys_without_equivalent_are_refused(text: str, messages: list[str]) -> None:
    document = source.parse(text, "job.yml")
    assert IMPORTER.recognises(document.data)
    with pytest.raises(ConfigError) as caught:
        load_experiment(document)
    assert [str(problem) for problem in caught.value.problems if problem.severity == "error"] == messages


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
