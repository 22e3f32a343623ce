"""Files that are neither experiments nor jobs."""
# ruff: noqa: E501 - a file is written as one line

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from hpcdist.base import source
from hpcdist.base.errors import Place, Problem
from hpcdist.importers import other_files
from tests.importers.job_files import FILES

TESTS = Path(__file__).parents[1]
VALID = sorted(
    chain(
        TESTS.parent.glob("examples/*.yml"),
        TESTS.glob("golden/*.yml"),
        TESTS.glob("importers/*/*.yml"),
        TESTS.glob("docs/*.yml"),
    )
)
NOTEBOOK = '{\n "cells": [\n  {"cell_type": "code", "source": ["import os"]}\n ],\n "nbformat": 4\n}\n'
START = "write an experiment that starts it: `hpcdist init --command "

TEXTS: list[tuple[str, bytes, str, str]] = [
    ("n", NOTEBOOK.encode(), "a Jupyter notebook", ""),
    ("t.py", b"x = 1\nprint(x)\n", "a Python program", START + "'python t.py'`"),
    ("a b.py", b"x = 1\n", "a Python program", START + "'python '\"'\"'a b.py'\"'\"''`"),
    ("<stdin>", b"# model\nimport torch\n", "a Python program", START + "'python FILE'`"),
    ("x", b'"""Train."""\n', "a Python program", ""),
    ("x", b"#!/usr/bin/env python3\nx: 1 = 2\n", "a Python program", ""),
    ("x", b"from a.b import c\nc()\n", "a Python program", ""),
    ("c.py", b'"""Parts."""\nimport torchx.specs as specs\n\ndef x():\n    pass\n\ndef train(\n    image: str, n: int = 2\n) -> specs.AppDef:\n    pass\n', "a component of TorchX", "give what `torchx run --dryrun c.py:NAME` prints, or the application as JSON: `json.dump(dataclasses.asdict(app), file)`"),
    ("c.py", b"def f() -> AppDef:\n    pass\n", "a component of TorchX", ""),
    ("c.py", b"def f(app: AppDef) -> int:\n    pass\n", "a Python program", ""),
    (".torchxconfig", b"[cli:run]\ncomponent = dist.ddp\n", "a configuration of TorchX", "give what `torchx run --dryrun` prints in its folder"),
    ("dir/.torchxconfig", b"[slurm]\npartition = gpu\n", "a configuration of TorchX", ""),
    ("dags/x.py", b"from airflow import DAG\n", "an Airflow DAG", ""),
    ("go.sh", b"echo: 1: 2\n", "a shell script", START + "'bash go.sh'`"),
    ("x", b"#!/bin/bash -l\ncd x: y\n", "a shell script", ""),
    ("go.sh", b"#!/bin/bash\ngradient experiments run singlenode \\\n  --name a\n", "a command line of Gradient", "give its words: `hpcdist submit --from gradient -- experiments run ...`"),
    ("x", b"$ gradient jobs create --name 'a: b'\n", "a command line of Gradient", ""),
    ("README.md", b"# Train\n\n    gradient experiments create multinode --name a\n", "a command line of Gradient", ""),
    ("x", b"#!/usr/bin/env Rscript\nf(x)\n", "an R program", ""),
    ("x", b"#!/usr/bin/perl\n", "a script", START + "./x`"),
    ("j", b"# mine\n#SBATCH -N 2\nsrun a\n", "a job script whose first line is not `#!/bin/bash`", "write that line first: sbatch refuses it as it is"),
    ("j", b"#!/bin/bash\n#SBATCH -N 2\nsrun a\n", "a job script of Slurm", "submit it by `sbatch j`, or write an experiment with its command: `hpcdist init`"),
    ("j", b"#!/bin/bash\n#\n#PBS -l select=2\nmpiexec a\n", "a job script of PBS", "submit it by `qsub j`, or write an experiment with its command: `hpcdist init`"),
    ("j", b"#!/bin/bash\r\n#BSUB -n 2\r\n", "a job script of LSF", "submit it by `bsub < j`, or write an experiment with its command: `hpcdist init`"),
    ("j", b"#!/bin/sh\n#$ -cwd\n", "a job script of Grid Engine", ""),
    ("j", b"#!/bin/sh\n# flux: -N 2\n", "a job script of Flux", ""),
    ("x", b"# image\nFROM a/b:1\nRUN pip install c\n", "a Dockerfile", "build the image, and name it in `build.image` of an experiment"),
    ("gpu/Dockerfile", b"FROM a\n", "a Dockerfile", ""),
    ("x", b"Bootstrap: docker\nFrom: a\n%post\n  b\n", "a definition of an Apptainer image", ""),
    ("x", b"include: 'a'\nrule all:\n  input: 'b'\n", "a Snakemake workflow", "it submits its own jobs: `snakemake --executor slurm`"),
    ("main.nf", b"", "a Nextflow pipeline", "it submits its own jobs: `nextflow run main.nf`"),
    ("Makefile", b"all: a\n\tb\n", "a Makefile", ""),
    ("e.yml", b"\n<!DOCTYPE html>\n<html>", "a web page", "download the file itself (GitHub: `Raw`)"),
    ("e.yml", b"\xff\xfer\0u\0", "text in UTF-16", "save it as UTF-8"),
    ("e.yml", b"\x89PNG\r\n\x1a\n\0", "a picture", "name the experiment file"),
    ("e.yml", b"PK\x03\x04", "a compressed file", "unpack it, and name a file in it"),
    ("e.yml", b"\x7fELF", "binary data", "name the experiment file"),
    ("e.yml", b"a\0b\0", "binary data", ""),
    ("e.yml", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS to a file elsewhere", "get it by `git lfs pull`"),
    ("e.yml", b"name: {{ .Values.name }}\n", "a template of Helm", "give what `helm template` writes"),
    ("e.yml", b"Resources:\n  A:\n    Type: AWS::S3::Bucket\n    P: !Ref b\n", "a template of CloudFormation", ""),
    ("pyproject.toml", b"[project]\nname = 1\n", "a file of settings", ""),
    ("requirements-dev.txt", b"torch==2\n", "a list of Python packages", ""),
    ("README.md", b"# Title\n", "a page of text", ""),
]  # fmt: skip
DATA: list[tuple[str, str]] = [
    (NOTEBOOK, "a Jupyter notebook"),
    ("version: '3'\nservices: {db: {image: postgres}}", "a Compose file of Docker"),
    ("on: [push]\njobs: {a: {runs-on: ubuntu-latest, steps: []}}", "a workflow of GitHub Actions"),
    ("on: {workflow_call: {}}\njobs: {a: {uses: ./b.yml}}", "a workflow of GitHub Actions"),
    ("name: a\nruns: {using: composite}", "an action of GitHub"),
    ("version: 2.1\njobs: {a: {docker: [{image: b}]}}", "a configuration of CircleCI"),
    ("trigger: none\npool: {vmImage: a}\nsteps: []", "a pipeline of Azure DevOps"),
    ("stages: [test]\na: {stage: test, script: [b]}", "a pipeline of GitLab"),
    ("stages: {a: {cmd: python b.py, deps: [b.py]}}", "a pipeline of DVC"),
    ("name: a\nchannels: [conda-forge]\ndependencies: [python=3.11]", "an environment of Conda"),
    ("name: a\nimplementation: {container: {image: b}}", "a component of Kubeflow Pipelines"),
    ("name: a\nscripts: {build: b}", "a package of npm"),
    ("name: a\nentry_points: {main: {command: python b.py}}", "a project of MLflow"),
    ("name: a\nexecution: parallel", "a job group of SkyPilot"),
    ("cluster_name: a\nprovider: {type: aws}", "a cluster of Ray"),
    ("name: a\nentrypoint: python b.py\nsearcher: {name: single}\nresources: {slots_per_trial: 8}", "an experiment of Determined"),
    ("ramble: {variables: {mpi_command: srun}}", "a workspace of Ramble"),
    ("spack: {specs: [py-torch]}", "an environment of Spack"),
    ("systems: [{name: a}]\nenvironments: [{name: b}]", "a configuration of ReFrame"),
    ("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU", "a configuration of Accelerate"),
    ('{"train_batch_size": 8, "zero_optimization": {"stage": 2}}', "a configuration of DeepSpeed"),
    ("program: a.py\nmethod: bayes\nparameters: {lr: {max: 1}}", "a sweep of Weights & Biases"),
    ('{"TrainingJobName": "a"}', "a job of SageMaker"),
    ('{"jobDefinitionName": "a"}', "a job of AWS Batch"),
    ("workerPoolSpecs: []", "a job of Vertex AI"),
    ("taskGroups: []", "a job of Google Batch"),
    ("cwlVersion: v1.2\nclass: Workflow", "a CWL workflow"),
    ("on: {github: {branches: {only: main}}}\njobs: {a: {uses: script@v1, needs: [b]}}", "a workflow of Gradient"),
    ("apiVersion: v2\nname: a\nversion: 0.1.0\nappVersion: '1'", "a chart of Helm"),
    ("openapi: 3.0.0\npaths: {}", "a description of a web service"),
    ("name: a\nscheduler: slurm\nlauncher: srun\npartitions: {b: {}}", "a site file of hpcdist"),
    ("defaults: {account: a}\nsites: {}", "a config file of hpcdist"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "raw", "what", "instead"), TEXTS)
def test_what_is_no_yaml_is_named(file: str, raw: bytes, what: str, instead: str) -> None:
    problem = other_files.of_text(raw, file)
    assert problem is not None
    expected = Problem(f"this is {what}, and not an experiment", hint=problem.hint, place=Place(file, 0, 0))
    assert problem == expected
    assert instead in ("", problem.hint)


@pytest.mark.parametrize(("text", "what"), DATA, ids=[what for _, what in DATA])
def test_what_has_the_keys_of_another_tool_is_named(text: str, what: str) -> None:
    problem = other_files.of_data(source.parse(text, "f.yml").data, "f.yml")
    assert problem is not None
    assert problem.message == f"this is {what}, and not an experiment"


def test_a_name_decides_where_the_keys_do_not() -> None:
    data = source.parse("x: 1", "f").data
    assert other_files.of_data(data, "f.yml") is None
    assert str(other_files.of_data(data, "run/f.py")).startswith("run/f.py: this is a Python program,")


@pytest.mark.parametrize("file", VALID, ids=str)
def test_no_valid_file_is_taken_for_another(file: Path) -> None:
    assert not_taken_for_another(file.read_text(), str(file))


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_no_job_of_a_known_tool_is_taken_for_another(text: str) -> None:
    assert not_taken_for_another(text, "job.yml")


def not_taken_for_another(text: str, file: str) -> bool:
    """Whether neither the text nor the keys of a file, with its templates or without `run`, are another's."""
    data = dict(source.parse(text, file, several=True).data)
    without = {key: value for key, value in data.items() if key != "run"}
    other_text = other_files.of_text(text.encode(), file)
    return other_text is other_files.of_data(data, file) is other_files.of_data(without, file) is None


def test_every_kind_of_the_table_is_tested() -> None:
    tested = {what for *_, what, _ in TEXTS} | {what for _, what in DATA}
    rows = {kind.what for kind in other_files._KINDS}
    assert rows - tested == {
        "a PDF document",
        "an XML file",
        "a Julia program",
        "a template of Azure",
        "a dashboard of Grafana",
    }


@pytest.mark.parametrize("text", ["a: b\n" * 4000, "#\n" * 9000, "{" * 17000, "FROM " * 4000, " " * 17000])
def test_long_texts_are_read_in_bounded_time(text: str) -> None:
    assert other_files.of_text(text.encode(), "e.yml") is None
