"""The Go template of a Katib experiment of v1alpha3 or before, as the trial template of later versions.

Source: kubeflow/katib, ``examples/v1alpha3``: the names of a trial, and one block for all parameters.
"""

from __future__ import annotations

import re
from typing import Any, Final

from hpcdist.documents import source
from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Place
from hpcdist.importers.reading import Reading, placed

_RAW: Final = ("spec", "trialTemplate", "goTemplate", "rawTemplate")
_END: Final = r"\s*\{\{-?\s*end\s*-?\}\}"
_BLOCK: Final = re.compile(
    r"\s*\{\{-?\s*with \.HyperParameters\s*-?\}\}\s*\{\{-?\s*range \.\s*-?\}\}(.*?)" + _END + _END, re.DOTALL
)
_FIELD: Final = re.compile(r"\{\{-?\s*\.(\w+)\s*-?\}\}")


def with_trial_spec(data: Map) -> Map:
    """Return the experiment with the job of its Go template as ``trialSpec``; unchanged without one.

    A template that has more than fields and one block for the parameters stays, too.

    Raises:
        ConfigError: if the template is no YAML.
    """
    read = Reading(data)
    raw, place = read.peek(*_RAW), read.place(*_RAW)
    names = [str(read.peek("spec", "parameters", at, "name")) for at, _ in read.items("spec", "parameters")]
    if not isinstance(raw, str) or place is None:
        return data
    fields = {"Trial": read.peek("metadata", "name"), "NameSpace": read.peek("metadata", "namespace")}
    text = _BLOCK.sub(lambda match: "".join(_of(match[1], name) for name in names), raw)
    text = _FIELD.sub(lambda match: str(fields.get(match[1]) or match[0]), text)
    if "{{" in text:
        return data
    try:
        spec = source.parse("\n" * place.line + text, place.file).data
    except ConfigError as error:
        raise ConfigError(*(one._replace(path=_RAW) for one in error.problems)) from None
    parameters = placed([{"name": name, "reference": name} for name in names], place)
    return _changed(data, {"trialSpec": spec, "trialParameters": parameters}, place)


def _of(body: str, name: str) -> str:
    """Return the body of the block for one parameter, whose value later versions write so."""
    values = {"Name": name, "Value": f"${{trialParameters.{name}}}"}
    return _FIELD.sub(lambda match: values.get(match[1], match[0]), body)


def _changed(data: Map, parts: dict[str, Any], place: Place) -> Map:
    template = data["spec"]["trialTemplate"].copy()
    template.drop("goTemplate")
    for key, part in parts.items():
        template.put(key, part, place)
    spec = data["spec"].copy()
    spec["trialTemplate"] = template
    new = data.copy()
    new["spec"] = spec
    return new
