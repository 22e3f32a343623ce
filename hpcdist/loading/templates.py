"""Templates in experiment files: restricted Jinja, in the sections that Polyaxon renders.

A text that is exactly one ``{{ expression }}`` becomes the value itself, so a number stays a number;
``run.cmd`` stays text. Jinja is imported only if some text contains a template. Comments (``{# #}``) are not
supported, because ``${#array[@]}`` is bash.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import key_names
from hpcdist.base.tree import Map, Seq
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks import frameworks
from hpcdist.loading.inputs import SpeltFloat, SpeltInt, put_spelt

RENDERED: Final = (
    "environment", "logging", "tags", "backend", "framework", "build", "run", "batch",
)  # fmt: skip
"""The sections with templates, besides the frameworks' (polyaxon-schemas 0.6.1, ``specs/base``)."""


def render(data: Map, values: Mapping[str, Any], missing: Collection[str] = ()) -> tuple[Map, list[Problem]]:
    """Return the data with every template filled in from these values, and all problems.

    A text with an invalid template is unchanged. One that uses a ``missing`` param is only a note, because
    another error reports that its value is absent, null or invalid.
    """
    filler = Filler({name: value for name, value in values.items() if name not in missing}, missing)
    new = data.mapped(lambda key, value: filler.filled(value, (key,)) if is_rendered(key) else value)
    return new, filler.problems


def is_rendered(key: str) -> bool:
    """Whether templates of this section are filled in."""
    return key in RENDERED or (key not in key_names(Experiment) and key in frameworks)


def has_template(text: str) -> bool:
    """Whether a text contains a template."""
    return "{{" in text or "{%" in text


def _with_texts(node: Any) -> Any:
    """Return a section or list with plain numbers, and the source spelling of those from a template."""
    for key, item in enumerate(node) if isinstance(node, Seq) else node.items():
        if isinstance(item, (SpeltInt, SpeltFloat)):
            put_spelt(node, key, item)
    return node


def _with_params(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with all of them under ``params``, as later versions of Polyaxon name them."""
    return {"params": values, **values}


class Filler:
    """Fills in the templates of trees with the same values; ``problems`` are those found so far."""

    def __init__(self, values: Mapping[str, Any], missing: Collection[str] = ()) -> None:
        self.problems: list[Problem] = []
        self._values = values
        self._missing = missing
        self._renderer: Any = None

    def use(self, values: Mapping[str, Any]) -> None:
        """Take the values of one more trial; a template that was there before is not compiled again."""
        self._values = values
        if self._renderer is not None:
            self._renderer.use(_with_params(values))

    def filled(self, value: Any, path: Path) -> Any:
        """Return a tree with its templates filled in; one that is invalid is unchanged."""
        if isinstance(value, Map):
            return _with_texts(value.mapped(lambda key, item: self.filled(item, (*path, key))))
        if isinstance(value, Seq):
            return _with_texts(value.mapped(lambda index, item: self.filled(item, (*path, index))))
        return self._text(value, path) if isinstance(value, str) and has_template(value) else value

    def _text(self, text: str, path: Path) -> Any:
        try:
            if self._renderer is None:
                from hpcdist.loading.sandbox import Renderer

                self._renderer = Renderer(_with_params(self._values))
            return self._renderer.render(text, native=path[:1] != ("run",))
        except ValueError as error:
            severity: Literal["note", "error"] = (
                "note" if getattr(error, "param", "") in self._missing else "error"
            )
            self.problems.append(Problem(str(error), path, getattr(error, "hint", ""), severity))
            return text
