"""Bandwidths between nodes, of all nodes together, and with each of several settings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from hpcdist import __version__
from hpcdist.base import resources
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.checks.finding import MAX_BYTES, AllReduce, CheckFinding, LaunchRecord, TaskRecord, read_file
from hpcdist.runs.rundir import RunDirectory
from hpcdist.site.published import Measured

# --- Bandwidths between pairs of nodes, and which node or link is slow

SLOW: Final = 0.25
"""A node or link below this share of the usual bandwidth is slow: other jobs use the network, too."""

_BEFORE: Final = 0.75
"""Less than this share of the earlier measurement is a warning."""

_REPORT: Final = "run it again; if it is slow again, report it to the centre with these numbers"
_COMPARABLE: Final = 3
"""With fewer nodes a slow one cannot be identified."""


def measured_by(task: TaskRecord | None) -> list[AllReduce]:
    """Return rank 0's measurements between nodes, by library; damaged records are left out."""
    if task is None:
        return []
    nodes = range(len(task.nodes))
    return [
        one for one in task.allreduces if all(left in nodes and right in nodes for left, right in _ends(one))
    ]


def _ends(one: AllReduce) -> list[tuple[int, int]]:
    return [*((pair.left, pair.right) for pair in one.pairs), *one.wrong]


def best_of(one: AllReduce) -> dict[int, float]:
    """Return the highest bandwidth of each node: other traffic can only slow down a pair."""
    found: dict[int, float] = {}
    for pair in one.pairs:
        for node in pair[:2]:
            found[node] = max(found.get(node, 0.0), pair.bandwidth)
    return found


def usual_of(one: AllReduce) -> float:
    """Return the usual bandwidth of a node: the median of the nodes' highest; 0 without any."""
    found = best_of(one)
    return median(found.values()) if found else 0.0


def slow_nodes(one: AllReduce) -> list[int]:
    """Return the nodes that are slow with every partner, the slowest first; empty for two nodes."""
    best, limit = best_of(one), SLOW * usual_of(one)
    found = [node for node, speed in best.items() if speed < limit]
    return sorted(found, key=best.__getitem__) if len(best) >= _COMPARABLE else []


def slow_links(one: AllReduce) -> list[tuple[int, int, float]]:
    """Return the pairs that are slow though both nodes are fast with others."""
    best, slow = best_of(one), slow_nodes(one)
    return [
        pair for pair in sorted(one.pairs, key=lambda pair: pair.bandwidth)
        if not {*pair[:2]} & {*slow} and pair.bandwidth < SLOW * min(best[pair.left], best[pair.right])
    ]  # fmt: skip


def bandwidth_findings(task: TaskRecord | None, before: Iterable[Measured]) -> Iterator[CheckFinding]:
    """Yield the findings from rank 0's measurements; ``before``: the site file's bandwidths."""
    found = [one for one in measured_by(task) if one.network]
    if task and task.connectivity and not found:
        detail = (
            "the job's Python has neither mpi4py nor PyTorch, or they see one task, so it was not measured"
        )
        yield CheckFinding(
            "bandwidth", "bandwidth", "note", detail, "install mpi4py, built with the site's MPI"
        )
    known = {one.library: one for one in before}
    for one in found:
        nodes = task.nodes if task else []
        yield from _of_library(f"bandwidth: {one.network}", one, nodes, known.get(one.network))


def _of_library(
    group: str, one: AllReduce, nodes: Sequence[str], before: Measured | None
) -> Iterator[CheckFinding]:
    if one.wrong:
        links = ", ".join(f"{nodes[start]} to {nodes[end]}" for start, end in one.wrong)
        hint = "do not train here before this is fixed: report it to the centre, with the names of the nodes"
        yield CheckFinding(group, "data", "error", f"what arrived is not what was sent: {links}", hint)
    if one.pairs:
        best, usual = best_of(one), usual_of(one)
        for node in sorted(best, key=best.__getitem__):
            partners = sum(node in pair[:2] for pair in one.pairs)
            detail = f"best {best[node]:.3g} GB/s of {partners} pair{'s' * (partners != 1)}"
            yield CheckFinding(group, nodes[node], "ok", detail, numbers=(("best", best[node]),))
        yield from _slow(group, one, nodes)
        if before and usual:
            yield _compared(group, usual, before)


def _slow(group: str, one: AllReduce, nodes: Sequence[str]) -> Iterator[CheckFinding]:
    best, usual, slow, links = best_of(one), usual_of(one), slow_nodes(one), slow_links(one)
    for node in slow:
        share = (
            f"{best[node]:.3g} GB/s at best, {best[node] / usual:.2g} of the {usual:.3g} that is usual here"
        )
        yield CheckFinding(group, "slow node", "warning", f"{nodes[node]} is slow: {share}", _REPORT)
    for left, right, speed in links:
        names, others = f"{nodes[left]} and {nodes[right]}", f"{best[left]:.3g} and {best[right]:.3g}"
        detail = f"the link between {names} is slow: {speed:.3g} GB/s; with other nodes they reach {others}"
        yield CheckFinding(group, "slow link", "warning", detail, _REPORT)
    if len(best) < _COMPARABLE:
        detail = f"{usual:.3g} GB/s each way; with only two nodes, a slow one cannot be identified"
        yield CheckFinding(group, "nodes", "ok", detail)
    elif not slow and not links:
        detail = f"none of {len(best)} is slow: {usual:.3g} GB/s each way"
        yield CheckFinding(group, "nodes", "ok", detail)


def _compared(group: str, usual: float, before: Measured) -> CheckFinding:
    share = usual / before.pair
    detail = f"{usual:.3g} GB/s, {share:.0%} of the {before.pair:.3g} measured on {before.date}"
    if share >= _BEFORE:
        return CheckFinding(group, "measured", "ok", detail)
    hint = "compare versions and variables with `measured` of the site file, and try again at another time"
    return CheckFinding(group, "measured", "warning", detail, hint)


def site_entries(directory: RunDirectory, day: str) -> list[Measured]:
    """Return a site file's entries for the measurements of this run and day.

    Unfinished ones and wrong data are left out; so is the all-reduce if a node or link is slow.
    """
    task = read_file(directory, "outputs/task.0.json", TaskRecord)
    return [
        Measured(
            library=one.network,
            date=day,
            nodes=len(task.nodes) if task else 0,
            pair=_rounded(usual_of(one)),
            all_reduce=None if slow_nodes(one) or slow_links(one) else _rounded(_all_reduce(directory, one)),
            versions={"hpcdist": __version__, **one.versions},
        )
        for one in measured_by(task)
        if one.network and one.correct and not one.error and not one.wrong and usual_of(one)
    ]


def _all_reduce(directory: RunDirectory, one: AllReduce) -> float:
    """Return the bandwidth on the bus by a benchmark for this network, else by the library."""
    tool = tool_result(directory, one.ranks)
    return tool.bandwidth if tool and tool.network == one.network else one.bus_bandwidth


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


# --- The all-reduce of nccl-tests or of the OSU benchmarks, where they are installed

_NCCL_TESTS: Final = re.compile(r"^# Avg bus bandwidth\s*: *([0-9.]+)", re.MULTILINE)
_OSU: Final = re.compile(r"^([0-9]+) +([0-9.]+) *$", re.MULTILINE)
"""Bytes, and microseconds; the last line counts."""

_LONGEST: Final = 300


class ToolResult(NamedTuple):
    """The all-reduce of all tasks by a benchmark: GB/s on the bus, or why it is missing."""

    network: str
    title: str
    bandwidth: float = 0.0
    error: str = ""


def tool_result(directory: RunDirectory, ranks: int) -> ToolResult | None:
    """Return what the job's benchmark printed; None if none is installed."""
    try:
        text = directory.read("outputs/tool.0.txt", MAX_BYTES).decode(errors="replace")
    except OSError:
        return None
    if (bus := _NCCL_TESTS.search(text)) and float(bus[1]):
        return ToolResult("nccl", "all_reduce_perf of nccl-tests", float(bus[1]))
    if rows := _OSU.findall(text):
        size, microseconds = map(float, rows[-1])
        bandwidth = size * 2 * (ranks - 1) / ranks / max(microseconds, 1e-3) / 1e3
        return ToolResult("mpi", "osu_allreduce of the OSU benchmarks", bandwidth)
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
    return ToolResult("tool", "", error=" ".join(last.split())[:_LONGEST])


def tool_findings(directory: RunDirectory, ranks: int) -> Iterator[CheckFinding]:
    """Yield the finding of nccl-tests or of the OSU benchmarks, where they are installed."""
    if one := tool_result(directory, ranks):
        detail = f"{one.title}: on the bus {one.bandwidth:.3g} GB/s over all tasks"
        finding = CheckFinding(f"bandwidth: {one.network}", "all-reduce", "ok", detail)
        hint = "build nccl-tests or the OSU benchmarks with the MPI of the site's launcher"
        detail = f"the benchmark that is installed did not measure it: {one.error}"
        yield finding._replace(status="note", detail=detail, hint=hint) if one.error else finding


# --- Candidate settings of the network's libraries: their grid, their launches, the best

MOST: Final = 8
"""The most candidates besides the job as it is; each takes ``REPEATS`` launches of the tasks."""
REPEATS: Final = 3

Candidate = tuple[tuple[str, str], ...]
"""The variables in which a launch differs; the first candidate has none."""

_NAME: Final = re.compile(r"(?!HPCDIST_)[A-Za-z_]\w*", re.ASCII)


def grid(tries: Sequence[tuple[str, str]]) -> tuple[Candidate, ...]:
    """Return the job as it is, and every combination of these values: ``0,1``, or ``rc,sm|tcp``.

    Raises:
        ConfigError: if a name is no variable, a value cannot be one, or there are too many combinations.
    """
    if not tries:
        return ((),)
    values = [[(name, value) for value in _values(name, text)] for name, text in tries]
    found = [*dict.fromkeys(itertools.product(*values))]
    if len(found) > MOST:
        message = f"these are {len(found)} combinations, at most {MOST} are measured side by side"
        raise ConfigError(Problem(message, hint="try fewer values", place=Place("--try", 0, 0)))
    return ((), *found)


def _values(name: str, text: str) -> list[str]:
    values = [value.strip() for value in text.split("|" if "|" in text else ",")]
    place = Place(f"--try {name}={text}", 0, 0)
    if not _NAME.fullmatch(name):
        raise ConfigError(
            Problem(f"{name!r} is not a variable of a library", hint="NAME=VALUE,...", place=place)
        )
    if not any(values) or any(not value.isprintable() for value in values):
        message = "it has no value, or one with a control character"
        raise ConfigError(Problem(message, hint="write NAME=VALUE,VALUE or NAME='VALUE|VALUE'", place=place))
    return [value for value in values if value]


def order(count: int) -> list[int]:
    """Return the candidate of each further launch: forwards, then backwards, so drift affects all alike."""
    there = [*range(count)]
    return [number for turn in range(REPEATS if count > 1 else 0) for number in there[:: (-1) ** turn]]


def not_set(candidate: Candidate, variables: Mapping[str, Sequence[str | None]]) -> str:
    """Return the tasks' values that differ from a candidate; empty if none does."""
    others = {
        name: variables.get(name, ()) for name, value in candidate if [*variables.get(name, ())] != [value]
    }
    return "; ".join(f"{name} was {_listed(values)}" for name, values in others.items())


def _listed(values: Sequence[str | None]) -> str:
    return " or ".join("not set" if value is None else value or "empty" for value in values) or "not recorded"


def setting_findings(
    candidates: Sequence[Candidate],
    speeds: Mapping[str, Mapping[int, Sequence[float]]],
    others: Mapping[int, str] = {},
) -> Iterator[CheckFinding]:
    """Yield each candidate's bandwidths and the best one.

    ``speeds``: by library and number of candidate; ``others``: tasks' values that differ from a candidate.
    """
    for number, what in others.items():
        hint = "the site's `task_setup`, a module or the user's shell sets it: change it there"
        detail = f"it was not measured: in the tasks {what}"
        yield CheckFinding("settings", shown(candidates[number]), "warning", detail, hint)
    for library, measured in speeds.items():
        group = f"settings: {library}"
        for number, candidate in enumerate(candidates):
            if number in others:
                continue
            found = [*measured.get(number, ())]
            speeds_text = ", ".join(f"{speed:.3g}" for speed in found)
            detail = f"all-reduce on the bus {speeds_text} GB/s" if found else "no launch of it ended well"
            numbers = (("median", median(found)),) if found else ()
            yield CheckFinding(group, shown(candidate), "ok" if found else "note", detail, numbers=numbers)
        yield _best(group, candidates, measured)


def shown(candidate: Candidate) -> str:
    """Return a candidate as the words of a shell."""
    return " ".join(f"{name}={value}" for name, value in candidate) or "as it is"


def _best(
    group: str, candidates: Sequence[Candidate], measured: Mapping[int, Sequence[float]]
) -> CheckFinding:
    """Return the best candidate, if it gains more than twice the spread of its launches and of the others."""
    base = [*measured.get(0, ())]
    complete = {number: found for number, found in measured.items() if len(found) >= REPEATS}
    if 0 not in complete or len(complete) == 1:
        return CheckFinding(group, "best", "unknown", "there are too few measurements to compare them")
    best = max(complete, key=lambda number: median(complete[number]))
    gain = median(complete[best]) - median(base)
    noise = max(max(found) - min(found) for found in (base, complete[best]))
    if gain <= 2 * noise:
        return CheckFinding(
            group, "best", "ok", f"nothing is better by more than twice the noise ({noise:.2g} GB/s)"
        )
    share = f"{gain / median(base):.0%} faster than as it is; the noise is {noise:.2g} GB/s"
    lines = ", ".join(f'{name}: "{value}"' for name, value in candidates[best])
    hint = (
        f"write `fabric: {{env: {{{lines}}}}}` into the site file, or these into `env_vars` of an experiment"
    )
    return CheckFinding(group, "best", "note", f"{shown(candidates[best])}: {share}", hint)


# --- The launches of the tasks for these settings

_LAUNCH: Final = "\n# Start the tasks.\n"  # templates/job/launch.sh.j2: what is behind it starts them
_SECONDS: Final = 40
"""The longest time of a launch of a candidate on a working network."""


def with_launches(script: str) -> str:
    """Return the job's script with several launches of its tasks: templates/doctor_launches.sh."""
    own = (resources.shipped("templates") / "doctor_launches.sh").read_text(encoding="utf-8")
    before, _, launch = script.rpartition(_LAUNCH)
    return f"{before}{_LAUNCH}launch() {{\n{launch}}}\n{own}"


def launch_lines(tried: Sequence[Candidate]) -> str:
    """Return the file ``launches``: a line each, with its number, and the variables that differ."""
    lines = (
        "\t".join((str(place), *(f"{name}={value}" for name, value in tried[number])))
        for place, number in enumerate(order(len(tried)), 1)
    )
    return "".join(f"{line}\n" for line in lines)


def walltime(tried: Sequence[Candidate]) -> str:
    """Return the time limit of a job with these candidates, in Slurm's form."""
    minutes = 5 + len(order(len(tried))) * _SECONDS // 60
    return f"{minutes // 60:02}:{minutes % 60:02}:00"


def launch_findings(directory: RunDirectory, tried: Sequence[Candidate]) -> Iterator[CheckFinding]:
    """Yield the findings of the launches that compare settings."""
    speeds: dict[str, dict[int, list[float]]] = {}
    others: dict[int, str] = {}
    for place, number in enumerate(order(len(tried)), 1):
        launch = read_file(directory, f"outputs/launch-{place}.json", LaunchRecord)
        for one in launch.allreduces if launch else ():
            if one.error or not one.seconds:
                continue
            if what := not_set(tried[number], one.variables):
                others[number] = what
            else:
                speeds.setdefault(one.network, {}).setdefault(number, []).append(one.bus_bandwidth)
    yield from setting_findings(tried, speeds, others)
