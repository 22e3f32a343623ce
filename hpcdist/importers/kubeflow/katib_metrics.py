"""The metrics of a Katib experiment, which its collector finds in the output, as ``tracking.metrics``.

Source: kubeflow/katib, ``pkg/metricscollector/v1beta1/file-metricscollector``; by default a line has
``NAME=NUMBER``.
"""

from __future__ import annotations

import re
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import Path
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.reading import Reading

_COLLECTOR: Final[Path] = ("spec", "metricsCollectorSpec")
_FORMATS: Final[Path] = (*_COLLECTOR, "source", "filter", "metricsFormat")
_DEFAULT: Final = r"([\w|-]+)\s*=\s*([+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[Ee][+-]?\d+)?)"
"""Katib's own without the empty number, which it finds too."""
_BEFORE: Final = r"(?<![\w|-])"
_GROUPS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\)|\(\?", re.DOTALL)
_ELSEWHERE: Final = {
    "TensorFlowEvent": "event files are read among the outputs: write them to $HPCDIST_OUTPUTS",
    "File": "print the metrics, or write the file to the output",
}


def put_metrics(read: Reading) -> None:
    """Put an expression for each metric, where the collector reads the output."""
    above = ("spec", "objective")
    if not read.keys(*above):
        read.get(*above)
    for key in ("type", "goal", "objectiveMetricName"):
        read.get(*above, key)
    read.ignore(*above, "metricStrategies", why="trials are compared by the last value of a metric")
    metrics = [word(read, *above, "objectiveMetricName") or ""]
    more = (*above, "additionalMetricNames")
    metrics += [word(read, *more, at) or "" for at, _ in read.items(*more)]
    kind = word(read, *_COLLECTOR, "collector", "kind") or "StdOut"
    formats = [(at, word(read, *_FORMATS, at) or "") for at, _ in read.items(*_FORMATS)]
    if kind != "StdOut":
        read.get(*_COLLECTOR)
        hint = _ELSEWHERE.get(kind, "")
        read.warn(
            *_COLLECTOR, why=f"the collector {kind!r} has no effect: nothing runs beside a trial", hint=hint
        )
        return
    read.get(*_COLLECTOR, "source", "fileSystemPath")
    for at, _ in formats[1:]:
        read.warn(*_FORMATS, at, why="only the first format is used", hint="write one for all metrics")
    pattern = formats[0][1] if formats else _DEFAULT
    found = Map(place=read.place(*above))
    for name in filter(None, metrics):
        if expression := _for_metric(pattern, name):
            found.put(name, expression, read.place(*above, "objectiveMetricName"))
    if formats and not found:
        why = f"{pattern!r} has no groups for a name and a number that Python reads"
        read.warn(*_FORMATS, 0, why=why, hint="write `tracking: {metrics: {NAME: REGEX}}` in an experiment")
    if found:
        read.put("tracking.metrics", found, *above, "objectiveMetricName")


def _for_metric(pattern: str, name: str) -> str:
    """Return the pattern with a name for its first group and one group, its second; "" without these."""
    text, depth, end, groups, skipped = "", 0, 0, 0, 0
    for match in _GROUPS.finditer(pattern):
        part, at = match[0], match.start()
        text += pattern[end:at] if not skipped else ""
        end = match.end()
        if part == "(":
            depth, top = depth + 1, depth == 0
            groups += top
            if top and groups == 1:
                text, skipped = f"{text}{_BEFORE}{re.escape(name)}", depth
            elif not skipped:
                text += "(" if top and groups == 2 else "(?:"  # noqa: PLR2004 - the number
        elif part == "(?":
            depth += 1
            text += part if not skipped else ""
        elif part == ")":
            text += part if not skipped else ""
            skipped = 0 if skipped == depth else skipped
            depth -= 1
        else:
            text += part if not skipped else ""
    text += pattern[end:]
    try:
        return text if re.compile(text).groups == 1 else ""
    except (re.error, OverflowError, RecursionError):
        return ""
