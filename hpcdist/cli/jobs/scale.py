"""``hpcdist scale``: one experiment on several numbers of nodes, and what that brings."""

from __future__ import annotations

import functools
import json as json_texts
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs, scale_result, submit
from hpcdist.cli.jobs.report import write
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import experiment_options, json_option, runs_dir_option
from hpcdist.cli.session import awaiting_in, pipeline_of
from hpcdist.errors import ConfigError, HpcdistError, PlanError, Problem
from hpcdist.host import locks, ownership
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.nodes import suspects
from hpcdist.runs import requests, rundir, states
from hpcdist.runs.control import SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.scaling import costs, plot, png, results, sizes, study, svg
from hpcdist.scaling.study import FILE, MOST, Found, Member, Mode, Study
from hpcdist.schedulers import schedulers

_SERVERS: Final = ("notebook", "tensorboard")
_BUSY: Final = "another `hpcdist scale` of the same experiment is running; waiting for it to finish"

Sizes = list[tuple[ExperimentOptions, Planned]]


class Asked(NamedTuple):
    """The options of the verb."""

    nodes: tuple[int, ...]
    is_weak: bool
    repeat: int
    metric: str
    chain: bool
    again: bool

    @property
    def mode(self) -> Mode:
        """The kind of scaling."""
        return "weak" if self.is_weak else "strong"


def _nodes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Read ``1,2,4``; each number counts once, in ascending order."""
    del ctx, param
    words = [word.strip() for word in value.split(",")] if value else []
    if not all(word.isdecimal() and word.isascii() and int(word[:9]) > 0 for word in words):
        raise click.BadParameter(f"{value!r} is no list of numbers of nodes, such as 1,2,4.")
    return tuple(sorted({int(word[:9]) for word in words}))


@click.command("scale")
@experiment_options
@click.option("--nodes", metavar="LIST", callback=_nodes, help="Numbers of nodes, such as 1,2,4,8.")
@click.option("--nodes-param", "param", default="", metavar="NAME",
              help="The param that is the number of nodes; default: the one that can be it.")  # fmt: skip
@click.option("--weak/--strong", "is_weak", default=True, show_default=True,
              help="Whether the problem grows with the nodes or stays the same.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1, MOST), default=1, show_default=True,
              metavar="N", help="Runs of each size.")  # fmt: skip
@click.option("--metric", default="", metavar="NAME",
              help="The throughput of the whole job; default: the metric whose name is one.")  # fmt: skip
@click.option("--max-gpu-hours", "most", type=click.FloatRange(min=0), metavar="HOURS",
              help="Submit nothing if all runs together may take more.")  # fmt: skip
@click.option("--chain", is_flag=True, help="Each run begins when the one before has ended.")
@click.option("--dry-run", is_flag=True, help="Show the sizes and their cost; submit nothing.")
@click.option("--again", is_flag=True, help="Begin anew, even if an earlier study was interrupted.")
@click.option("--wait", "waiting", is_flag=True, help="Wait for the runs to end, and report.")
@click.option("--report", "reporting", is_flag=True,
              help="Report on a study; EXP is the name of one of its runs.")  # fmt: skip
@click.option("--plot", "plot_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="With --wait or --report: write the plot: *.png as PNG, else SVG.")  # fmt: skip
@runs_dir_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context,
    options: ExperimentOptions,
    nodes: tuple[int, ...],
    param: str,
    is_weak: bool,
    repeat: int,
    metric: str,
    most: float | None,
    chain: bool,
    dry_run: bool,
    again: bool,
    waiting: bool,
    reporting: bool,
    plot_file: Path | None,
    runs_dir: Path,
    json: bool,
) -> None:
    """Run an experiment on several numbers of nodes, and report on it.

    The sizes and their cost are shown first. Each size is a run of its own.
    """
    if reporting == bool(nodes):
        raise click.UsageError("Give numbers of nodes, such as --nodes 1,2,4, or --report and a run.")
    if plot_file and _is_png(plot_file):
        png.font()  # what is missing is known before anything is submitted
    if reporting:
        _report(runs_dir, options.file, metric, plot_file, json=json)
        return
    asked = Asked(nodes, is_weak, repeat, metric, chain, again)
    _check_kind(options)
    planned = _planned(options, nodes, param, runs_dir, saves=not dry_run)
    _print_problems([made for _, made in planned])
    found = costs.costs([made for _, made in planned], repeat)
    if not json:
        scale_result.print_plan(found)
    costs.check(found, most)
    if dry_run:
        show.as_json({"plan": scale_result.plan_data(found)}) if json else None
        return
    members = _submit_all(planned, asked, runs_dir, _quiet if json else _print_line)
    first = members[0].run
    if not waiting:
        _print_next(first, members, scale_result.plan_data(found), json=json)
        return
    reports = wait([one.run for one in members], runs.services())
    _report(runs_dir, str(first.directory.path), metric, plot_file, json=json)
    ctx.exit(next(filter(None, (runs.exit_code(report.status) for report in reports)), 0))


def _check_kind(options: ExperimentOptions) -> None:
    """Check that the file is that of a training.

    Raises:
        ConfigError: if it is a pipeline, or serves a browser.
    """
    document, is_pipeline = pipeline_of(options)
    kind = document.data.get("kind") if document else None
    if document and (is_pipeline or kind in _SERVERS):
        message = f"a {'pipeline' if is_pipeline else kind} has no throughput that could scale"
        hint = "study an experiment, such as that of one operation" if is_pipeline else "study an experiment"
        raise ConfigError(document.locate(Problem(message, ("kind",), hint)))


def _planned(
    options: ExperimentOptions, nodes: Sequence[int], param: str, runs_dir: Path, *, saves: bool
) -> Sizes:
    """Plan all sizes, without suspect nodes and with the jobs of the runs that they wait for, as `submit`.

    Raises:
        HpcdistError: as `sizes.planned`.
    """
    plan = functools.partial(plan_experiment, awaiting=awaiting_in(runs_dir, saves=saves))
    found = sizes.planned(options, nodes, plan, param)
    plans = suspects.avoided_by_all([made for _, made in found], runs_dir, saves=saves)
    return [(own, made) for (own, _), made in zip(found, plans, strict=True)]


def _print_problems(plans: Sequence[Planned]) -> None:
    """Print the warnings of all sizes, equal ones once."""
    found = {(problem.message, problem.hint): problem for made in plans for problem in made.problems}
    print_problems(found.values())


def _submit_all(planned: Sizes, asked: Asked, runs_dir: Path, result: Callable[[Run], object]) -> list[Found]:
    """Submit the runs of a study that are missing; return all of its runs.

    Raises:
        HpcdistError: as `submit.submit_run`; what was submitted before stays so.
    """
    services = runs.services()
    first = planned[0][1].plan.identity
    if asked.chain and not schedulers.get(first.scheduler).is_batch_system:
        message = f"on site {first.site} jobs start at once, so that none can wait for another"
        raise PlanError(Problem(message, hint="leave out --chain"))
    new = _study(planned, asked, services)
    ownership.make(runs_dir)
    with locks.exclusive(runs_dir, new.digest, services.sleep, lambda: note(_BUSY), name="submit-study"):
        every = [] if asked.again else study.every(runs_dir)
        kept = study.unfinished(every, new.digest)
        there = study.of_study(every, kept) if kept else []
        left = study.missing(kept or new, there)
        if kept:
            done = len(kept.members) - len(left)
            note(f"an earlier study has {done} of {len(kept.members)} runs; it goes on (--again begins anew)")
        last = _last(there)
        with _progress(len(left)) as submitted:
            for member in left:
                request = _request(
                    member, planned, services, _last_job(last, services) if asked.chain else ""
                )
                last = submit.submit_run(request, runs_dir, services, result, again=False)
                submitted.append(Found(last, member))
        return study.of_study([*there, *submitted], kept or new)


def _study(planned: Sizes, asked: Asked, services: Services) -> Study:
    """Return the study that is asked for, as a new one."""
    [first, *_] = planned
    own = [made.plan.identity.name for _, made in planned]
    text = json_texts.dumps(
        [first[1].document.text, [options.changes for options, _ in planned], first[1].plan.identity.site,
         own, asked.nodes, asked.repeat, asked.mode, asked.metric]
    )  # fmt: skip
    name = own[0].removesuffix(sizes.suffix(asked.nodes[0]))
    token, digest = services.token(), rundir.digest(text)
    return Study(token, digest, name, asked.nodes, asked.repeat, asked.mode, asked.metric)


@contextmanager
def _progress(wanted: int) -> Iterator[list[Found]]:
    """Yield a list of the runs that were submitted; after an error, print how many there are."""
    submitted: list[Found] = []
    try:
        yield submitted
    except HpcdistError:
        if submitted:
            note(f"{len(submitted)} of {wanted} runs are submitted; the same command submits the others")
        raise


def _last(there: Sequence[Found]) -> Run | None:
    """Return the run of a study that was submitted last, in the order of its runs."""
    found = [one for one in there if one.run.job]
    last = max(found, key=lambda one: (one.member.repetition, one.member.nodes), default=None)
    return last and last.run


def _last_job(last: Run | None, services: Services) -> str:
    """Return the id of the last job of a run; empty if it has ended: batch systems forget such."""
    if last is None or states.status([last], services)[0].is_over:
        return ""
    return last.jobs[-1].record.job_id or ""


def _request(member: Member, planned: Sizes, services: Services, after: str) -> SubmitRequest:
    options, made = planned[member.study.nodes.index(member.nodes)]
    text = f"{made.document.text.rstrip(chr(10))}\n{member.remark}"
    own = made._replace(document=made.document._replace(text=text))
    request = requests.of(own, options, services.runner)
    files = functools.partial(_files, request, member)
    return request._replace(files=files, after=after)


def _files(request: SubmitRequest, member: Member, directory: RunDirectory) -> dict[str, str]:
    return {**request.files(directory), FILE: member.text}


def _print_line(run: Run) -> None:
    click.echo(f"{run.name}: job{'s' * bool(run.later)} {runs.ids_of(run)} on site {run.record.site}")
    show.flush()


def _quiet(run: Run) -> None:
    del run


def _print_next(first: Run, members: Sequence[Found], plan: object, *, json: bool) -> None:
    if json:
        show.as_json({"plan": plan, "runs": [runs.record_of(one.run) for one in members]})
    else:
        show.table((), [("next", f"hpcdist scale --report {first.name}")])


def _report(runs_dir: Path, job: str, metric: str, file: Path | None, *, json: bool) -> None:
    """Print what the runs of a study have measured so far, and write its plot.

    Raises:
        ConfigError: if the run is of no study, or the throughput is not known; as `write`.
    """
    of, found = study.find(runs_dir, job)
    reports = states.status([one.run for one in found], runs.services())
    pairs = zip(reports, (one.member for one in found), strict=True)
    result = results.result(of, pairs, metric)
    if json:
        show.as_json(scale_result.as_data(result))
    else:
        scale_result.print_result(result)
    drawing = plot.drawing(result)
    if file and drawing:
        write(file, png.write(drawing) if _is_png(file) else svg.write(drawing).encode())
        note(f"{file} shows it{'' if _is_png(file) else '; open it in a browser'}")
    elif file:
        note(f"{file} is not written: nothing was measured yet")


def _is_png(file: Path) -> bool:
    return file.suffix.lower() == ".png"
