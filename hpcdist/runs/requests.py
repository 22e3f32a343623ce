"""A plan becomes the request that `submission.submit` takes, with the code of its program."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from hpcdist.base import resources
from hpcdist.base.command import Runner
from hpcdist.base.errors import ConfigError, Problem, located
from hpcdist.experiment.model import Experiment
from hpcdist.loading.planning import ExperimentOptions, Planned, in_jobs
from hpcdist.runs import code_record, copying, elements
from hpcdist.runs.code_copy import LIMIT, Choice, CodeResult, prepare
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.submission import SubmitRequest
from hpcdist.schedulers.base import RUN_DIR
from hpcdist.script import runtime, trial_table
from hpcdist.script.renderer import files_of_job

# --- The files of each job: its plan, its script, and in a search the table of its trials


def texts(jobs: Iterable[Planned], directory: RunDirectory) -> dict[str, str]:
    """Return the texts of the files of each job, by name; the first job is the directory's.

    The runtime's files are included if the run has none yet, or has another version's.
    """
    files = {f"{runtime.FOLDER}/{name}": text for name, text in runtime.files().items()}
    own = files[f"{runtime.FOLDER}/{runtime.LIST}"].encode()
    with suppress(OSError):  # also if it is longer
        files = {} if directory.read(f"{runtime.FOLDER}/{runtime.LIST}", len(own)) == own else files
    for number, made in enumerate(jobs, directory.number):
        name_of = directory._replace(number=number).own
        files |= files_of_job(made.plan, str(directory.path), name_of)
        files |= {name_of(trial_table.FILE): trial_table.table(made.trials)} if made.trials else {}
    return files


# --- A plan becomes the request that `submission.submit` takes


def of(
    made: Planned, options: ExperimentOptions, runner: Runner, *, text: str = "", mark: str = ""
) -> SubmitRequest:
    """Return the submission request of this plan, with the code that its experiment asks for.

    ``text``: its experiment's text, by default the document's. ``mark``: as in `SubmitRequest`.

    Raises:
        PlanError: as `planning.in_jobs`.
    """
    jobs, array, restarts = in_jobs(made), made.plan.request.array, made.plan.completion.restarts
    trials = [elements.text_of(trial.number for trial in job.trials) for job in jobs]
    return SubmitRequest(
        name=made.plan.identity.name,
        site=made.plan.identity.site,
        scheduler=made.plan.identity.scheduler,
        experiment=text or made.document.text,
        files=lambda directory: texts(jobs, directory),
        code=functools.partial(prepared_code, made, runner=runner),
        options=made.plan.request.submit_options,
        jobs=trials if len(jobs) > 1 else ("",),
        one_by_one=array is not None and array.at_once is not None,
        followed=restarts is not None and restarts.is_followed,
        changes=(*_with_site(made, options).changes,),
        mark=mark,
        file=_file(made) if text in ("", made.document.text) else "",
    )


def as_it_is(made: Planned, options: ExperimentOptions, runner: Runner) -> SubmitRequest:
    """Return the request that submits the user's own job script of Slurm, unchanged.

    Its output goes to the run's folder, by options of sbatch; nothing else is recorded.
    """
    text, plan = made.document.text, made.plan
    name = "job-%a.out" if plan.request.array else "job.out"  # as `hpcdist logs` finds them
    streams = tuple(f"--{stream}={RUN_DIR}/logs/{name}" for stream in ("output", "error"))
    request = replace(plan.request, submit_options=streams)
    usual = of(made._replace(plan=replace(plan, request=request)), options, runner, mark="as it is")

    def files(directory: RunDirectory) -> Mapping[str, str]:
        found = {**usual.files(directory), "job.sh": text}
        own = {name: text for name, text in found.items() if name in {"plan.json", "job.sh", "setup.sh"}}
        return {**found, "job.sum": runtime.listed(own)}

    return usual._replace(files=files)


def _file(made: Planned) -> str:
    """Return the path of the file that the user wrote; empty for standard input and a command line."""
    file = Path(made.document.file).absolute()
    return str(file) if file.is_file() else ""


def _with_site(made: Planned, options: ExperimentOptions) -> ExperimentOptions:
    """Return the options with the site's file, if the site is not found by its name in every shell."""
    others = {name: value for name, value in os.environ.items() if name != "HPCDIST_SITE_PATH"}
    by_name = resources.site_files(resources.site_folders(options.site_path, others))
    return options if made.machine.file in by_name.values() else options._replace(site=str(made.machine.file))


# --- The code of a job, put into its run directory when it is submitted


def prepared_code(
    made: Planned, directory: RunDirectory, runner: Runner, folder: Path | None = None, *, dry: bool = False
) -> CodeResult:
    """Record or copy the code of an experiment that is submitted in this folder, by default the current one.

    Raises:
        ConfigError: as `prepare` does, with the places of the file.
        OSError: when the copy cannot be written.
    """
    locate = made.document.locate
    with located(lambda problem: locate(problem) if problem.path else problem):
        return prepare(choice_of(made.experiment, folder or Path.cwd()), directory.path, runner, dry=dry)


def choice_of(experiment: Experiment, folder: Path) -> Choice:
    """Return which code the experiment asks for."""
    batch, build = experiment.batch, experiment.build
    return Choice(
        folder,
        batch.code or "here",
        (build and build.git) or "",
        (build and (build.commit or build.branch)) or "",
        batch.max_code_size.mib << 20 if batch.max_code_size else LIMIT,
    )


def recorded_code(
    run: Run, made: Planned, directory: RunDirectory, runner: Runner, *, update: bool
) -> CodeResult:
    """Give a new run the code of an earlier one, or with ``update`` what is now in its folder.

    A copy is copied; a job that runs in the folder itself finds what is there now.

    Raises:
        ConfigError: if there is no such code any more, or as `prepared_code`.
        OSError: when the copy cannot be written.
    """
    found = code_record.read(run.directory)
    wanted = made.experiment.batch.code or "here"
    if not update and wanted == found.source and found.start:
        return copying.copy_code(run.directory, directory)
    folder = Path(found.folder) if found.folder else Path.cwd()
    if not folder.is_dir():
        hint = "make it again, or submit the experiment from another folder"
        raise ConfigError(Problem(f"{folder}, where {run.name} was submitted, is gone", hint=hint))
    code = prepared_code(made, directory, runner, folder)
    return code if code.folder else code._replace(folder=str(folder))
