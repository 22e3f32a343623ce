"""Files that are neither experiments nor jobs: what each is, and what to do with it.

Only a refused file is looked up here, so that no valid experiment is mistaken for another file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final, NamedTuple

from hpcdist.base.errors import Place, Problem
from hpcdist.base.words import quote

HEAD: Final = 16 * 1024
"""The bytes at the start of a file that identify it."""

_OTHER: Final = "name the experiment file"
_START: Final = "write an experiment that starts it: `hpcdist init --command {command}`"
_WRITE: Final = "write its command as `run.cmd` of an experiment: `hpcdist init --command '...'`"
_JOB: Final = "submit it by `{submit} {{file}}`, or write an experiment with its command: `hpcdist init`"
_OWN_JOBS: Final = "it submits its own jobs: "
_IMAGE: Final = "build the image, and name it in `build.image` of an experiment"
_STEPS: Final = "write one experiment for each step, and chain them with `batch.dependency`"
_SETTINGS: Final = "if your program reads it, name it in the command of an experiment"
_MACHINES: Final = "it sets up machines, and starts no program: " + _OTHER


class _Kind(NamedTuple):
    """A kind of file, known by one of: the beginning of its text, its keys, its name.

    ``keys``: all words apply; `|` is or, `*` any key or item. ``instead``: `{file}` is the name of the file,
    `{command}` the ``command`` that starts it, in which `{stem}` is its name without the ending.
    """

    what: str
    instead: str
    text: str = ""
    keys: str = ""
    names: str = ""
    command: str = ""


_BEGIN: Final = r"\A(?:[ \t]*(?:#.*)?\n)*"
"""The lines before the first one that is no comment."""
_PYTHON: Final = r"(?:import \w|from [\w.]+ import |[rub]?\"\"\"|@\w|def \w+\(|class \w+[:(])"
_PROGRAMS: Final = (
    _Kind("a web page", "download the file itself (GitHub: `Raw`)", names="*.html *.htm",
          text=r"(?i)\A\s*<(!doctype html|html|head|body)\b"),
    _Kind("a Jupyter notebook",
          "convert it by `jupyter nbconvert --to script {file}`, and write an experiment "
          "that starts that: `hpcdist init --command {command}`", text=r'\A\s*\{\s*"cells"\s*:\s*\[',
          keys="cells nbformat", names="*.ipynb", command="python {stem}.py"),
    _Kind("a job script whose first line is not `#!/bin/bash`",
          "write that line first: sbatch refuses it as it is",
          r"\A(?!#!|#SBATCH)(?:[ \t]*(?:#.*)?\n)+?#SBATCH[ \t]+-"),
    _Kind("a job script of Slurm", _JOB.format(submit="sbatch"), r"\A#(!.*\n[^\0]*^#)?SBATCH\b",
          names="*.sbatch *.slurm"),
    _Kind("a job script of PBS", _JOB.format(submit="qsub"), r"\A#(!.*\n[^\0]*^#)?PBS\b", names="*.pbs"),
    _Kind("a job script of LSF", _JOB.format(submit="bsub <"), r"\A#(!.*\n[^\0]*^#)?BSUB\b", names="*.lsf"),
    _Kind("a job script of Grid Engine", _JOB.format(submit="qsub"), r"\A#(!.*\n[^\0]*^#)?\$ -",
          names="*.sge"),
    _Kind("a job script of Flux", _JOB.format(submit="flux batch"), r"\A#(!.*\n[^\0]*^#)? ?flux:"),
    _Kind("a Snakemake workflow", _OWN_JOBS + "`snakemake --executor slurm`", names="Snakefile *.smk",
          text=r"^(rule|checkpoint) +\w+ *:"),
    _Kind("a Nextflow pipeline", _OWN_JOBS + "`nextflow run {file}`", r"^(process|workflow)( +\w+)? *\{ *$",
          names="*.nf"),
    _Kind("an Airflow DAG", _STEPS, r"^(from|import) +airflow\b"),
    _Kind("a command line of Gradient",
          "give its words: `hpcdist submit --from gradient -- experiments run ...`",
          r"^[ \t]*(?:[$!] ?)?gradient[ \t]+(?:experiments|jobs)[ \t]+(?:run|create)\b"),
    _Kind("a shell script", _START, r"\A#!.*\b(ba|z|k|c|tc|da)?sh\b", names="*.sh *.bash *.zsh *.csh",
          command="bash {file}"),
    _Kind("a component of TorchX",
          "give what `torchx run --dryrun {file}:NAME` prints, or the application as JSON: "
          "`json.dump(dataclasses.asdict(app), file)`",
          r"^def \w+\((?:[^\0](?!\ndef ))*?\) *-> *(?:\w+\.)*AppDef *:"),
    _Kind("a Python program", _START, rf"\A#!.*\bpython|{_BEGIN}{_PYTHON}", names="*.py",
          command="python {file}"),
    _Kind("an R program", _START, r"\A#!.*\bRscript", names="*.R *.r", command="Rscript {file}"),
    _Kind("a Julia program", _START, r"\A#!.*\bjulia", names="*.jl", command="julia {file}"),
    _Kind("a script", _START, r"\A#! *[/\w]", command="./{file}"),
    _Kind("a Dockerfile", _IMAGE,
          _BEGIN + r"(ARG|FROM) [^\0]*^(FROM|RUN|COPY|CMD|ENTRYPOINT|ENV|WORKDIR|ADD) ",
          names="Dockerfile* *.dockerfile *.Dockerfile"),
    _Kind("a definition of an Apptainer image", _IMAGE, _BEGIN + r"(?i:bootstrap) *:[^\0]*^%\w",
          names="*.def"),
    _Kind("a Makefile", _WRITE, r"^\.PHONY *:", names="Makefile GNUmakefile *.mk"),
)  # fmt: skip
_PAGES: Final = (
    _Kind("text in UTF-16", "save it as UTF-8", r"\A(\xff\xfe|\xfe\xff)"),
    _Kind("a picture", _OTHER, r"\A(\x89PNG|\xff\xd8\xff|GIF8)"),
    _Kind("a PDF document", _OTHER, r"\A%PDF-"),
    _Kind("a compressed file", "unpack it, and name a file in it",
          r"\A(PK\x03\x04|\x1f\x8b|BZh\d|\xfd7zXZ|7z\xbc)"),
    _Kind("binary data", _OTHER, r"\A(\x7fELF|\x89HDF|\x80[\x02-\x05]|[^\0]*\0[^\0]*\0)"),
    _Kind("an XML file", _OTHER, r"\A\s*<(\?xml|svg)\b", names="*.xml *.svg"),
    _Kind("a pointer of Git LFS to a file elsewhere", "get it by `git lfs pull`",
          r"\Aversion https://git-lfs"),
    _Kind("a template of Helm", "give what `helm template` writes",
          r"\{\{-? *\(?(\.(Values|Release|Chart)\b|include \"|if |range |with |define )"),
    _Kind("a list of Python packages",
          "install them by `pip install -r {file}` before you submit an experiment",
          names="requirements*.txt"),
    _Kind("a configuration of TorchX", "give what `torchx run --dryrun` prints in its folder",
          names=".torchxconfig"),
    _Kind("a file of settings", _SETTINGS, _BEGIN + r"\[\[?[\w\"' .:-]+\]\]? *$", names="*.toml *.ini"),
    _Kind("a page of text", "copy the YAML of the experiment into a file of its own",
          names="*.md *.rst *.adoc"),
)  # fmt: skip
_OF_TOOLS: Final = (
    _Kind("a Compose file of Docker",
          "name its image in `build.image` of an experiment, and its command in `run.cmd`",
          keys="services.*.image|build"),
    _Kind("a workflow of GitHub Actions", _STEPS, keys="jobs.*.runs-on"),
    _Kind("a workflow of GitHub Actions", _STEPS,
          keys="jobs on.push|pull_request|workflow_call|workflow_dispatch"),
    _Kind("a workflow of Gradient",
          "it fetches and stores data for its jobs: write the `script` of one as `run.cmd` of an "
          "experiment, and its `image` in `build.image`", keys="jobs.*.uses"),
    _Kind("a chart of Helm", "give what `helm template` writes",
          keys="apiVersion version appVersion|maintainers|type"),
    _Kind("an action of GitHub", _STEPS, keys="runs.using"),
    _Kind("a component of Kubeflow Pipelines", _WRITE, keys="implementation.container"),
    _Kind("a configuration of CircleCI", _STEPS, keys="jobs.*.docker|machine|executor"),
    _Kind("a pipeline of Azure DevOps", _STEPS, keys="pool|trigger steps|jobs|stages"),
    _Kind("a pipeline of GitLab", _STEPS, keys="stages *.script"),
    _Kind("a pipeline of DVC", _STEPS, keys="stages.*.cmd"),
    _Kind("a CWL workflow", _OWN_JOBS + "`toil-cwl-runner --batchSystem slurm {file}`", keys="cwlVersion"),
    _Kind("an environment of Conda",
          "create it by `conda env create -f {file}`, and activate it before you submit an "
          "experiment", keys="dependencies name|channels|prefix"),
    _Kind("a package of npm", _OTHER, keys="scripts.start|build|test|dev|lint"),
    _Kind("a project of MLflow", _WRITE, keys="entry_points.*.command"),
    _Kind("a job group of SkyPilot", "write each of its tasks to a separate file", keys="name execution"),
    _Kind("a cluster of Ray", "write an experiment with `framework: ray`, and the driver as its command",
          keys="cluster_name provider|head_node_type|available_node_types"),
    _Kind("an experiment of Determined",
          "write its `entrypoint`, without a launcher, as `run.cmd` of an experiment",
          keys="searcher entrypoint|hyperparameters|resources"),
    _Kind("a workspace of Ramble", _OWN_JOBS + "`ramble on`", keys="ramble"),
    _Kind("an environment of Spack", "name its folder in `batch.spack_env` of an experiment", keys="spack"),
    _Kind("a configuration of ReFrame", _OWN_JOBS + "`reframe -C {file} -r`", keys="systems environments"),
    _Kind("a configuration of Accelerate",
          "write `framework: accelerate` in an experiment, and name the script",
          keys="compute_environment distributed_type"),
    _Kind("a configuration of DeepSpeed",
          "name it in the command of an experiment with `framework: deepspeed`",
          keys="train_batch_size|train_micro_batch_size_per_gpu|zero_optimization"),
    _Kind("a sweep of Weights & Biases", "write an experiment with `wandb agent` as its command",
          keys="method parameters"),
    _Kind("a job of SageMaker", _WRITE, keys="TrainingJobName|AlgorithmSpecification"),
    _Kind("a job of AWS Batch", _WRITE, keys="jobDefinitionName|containerProperties"),
    _Kind("a job of Vertex AI", _WRITE, keys="workerPoolSpecs"),
    _Kind("a job of Google Batch", _WRITE, keys="taskGroups"),
    _Kind("a template of CloudFormation", _MACHINES, keys="AWSTemplateFormatVersion",
          text=r"^(AWSTemplateFormatVersion|Transform) *:|^Resources *:[^\0]*^ +Type: *['\"]?AWS::"),
    _Kind("a template of Azure", _MACHINES, keys="contentVersion resources"),
    _Kind("a dashboard of Grafana", _OTHER, keys="panels schemaVersion"),
    _Kind("a description of a web service", _OTHER, keys="openapi|swagger paths"),
    _Kind("a site file of hpcdist", "give it as `--site {file}` with an experiment",
          keys="scheduler partitions|node_types"),
    _Kind("a config file of hpcdist", "it is read from ~/.config/hpcdist/config.yml, or as $HPCDIST_CONFIG",
          keys="defaults.account|partition|walltime|mail|qos"),
)  # fmt: skip
_KINDS: Final = (*_PAGES, *_PROGRAMS, *_OF_TOOLS)


def of_text(raw: bytes, file: str) -> Problem | None:
    """Return the problem of a file that cannot be read as YAML, None if its kind is unknown."""
    text = raw[:HEAD].decode("latin-1").replace("\r\n", "\n")
    known = (kind for kind in _KINDS if PurePath(file).name in kind.names.split())
    kinds = (kind for kind in _KINDS if kind.text and re.search(kind.text, text, re.MULTILINE))
    return _problem(next(known, None) or next(kinds, None) or _named(file), file)


def of_data(data: Mapping[str, object], file: str) -> Problem | None:
    """Return the problem of a file with these keys, None if its kind is unknown."""
    if isinstance(data.get("run"), Mapping) or "job_script" in data:
        return None
    kinds = (kind for kind in _KINDS if kind.keys and all(_has(data, word) for word in kind.keys.split()))
    return _problem(next(kinds, None) or _named(file), file)


def _named(file: str) -> _Kind | None:
    name = PurePath(file).name
    return next((kind for kind in _KINDS if any(fnmatchcase(name, one) for one in kind.names.split())), None)


def _problem(kind: _Kind | None, file: str) -> Problem | None:
    if kind is None:
        return None
    path = "FILE" if file == "<stdin>" else file
    stem = str(PurePath(path).with_suffix(""))
    command = quote(kind.command.format(file=quote(path), stem=quote(stem)))
    hint = kind.instead.format(file=quote(path), command=command)
    return Problem(f"this is {kind.what}, and not an experiment", hint=hint, place=Place(file, 0, 0))


def _has(node: object, keys: str) -> bool:
    """Return whether there is such a key: ``services.*.image|build``."""
    step, _, rest = keys.partition(".")
    if not isinstance(node, Mapping):
        return False
    below = list(node.values()) if step == "*" else [node[name] for name in step.split("|") if name in node]
    return any(_has(item, rest) for item in below) if rest else bool(below)
