"""Published scripts of experts, setting by setting, and an experiment of at most 20 lines in place of each.

A file of ``tests/experts`` has the address of a script, the experiment, and every setting of the script with
what became of it. Only settings are kept of the scripts. ``python -m tests.experts [NAME...]`` counts them.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import yaml

from hpcdist.base import source
from hpcdist.loading import load
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Origin
from hpcdist.planner.make_plan import make_plan
from hpcdist.script import explained
from hpcdist.script.renderer import render
from tests.published import canonical, commands, name_of, options, said
from tests.sites import shipped_site

FOLDER: Final = Path(__file__).parent / "experts"
ROOT: Final = Path(__file__).parents[1]
Kind = Literal["default", "line", "own", "other", "differs", "contradicts", "missing"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""What becomes of a setting.

``default``: the script has it though the experiment does not say it, or does the same by itself. ``line``: by
a line of the experiment. ``own``: so too, and no site file could know it: an account, the size and the time
of the job, files, images, the environment and the variables of the program. ``other``: the same by other
means. ``differs``: hpcdist has another value, for a reason. ``contradicts``: it has another value, and is
wrong. ``missing``: neither.
"""
_NOTES: Final[tuple[Kind, ...]] = ("other", "differs", "contradicts")
Note = str | Mapping[str, str] | None
"""What a file says of a setting: nothing where the script has it, ``own``, or a kind with a reason.

``{default: REASON, text: TEXT}``: the script or the file ``file`` has this text, or lacks it behind ``! ``.
``{same: OURS, why: REASON}``: the script has the value in another spelling.
"""


class Ours(NamedTuple):
    """A setting of hpcdist's script; ``by_user``: the experiment says it."""

    text: str
    by_user: bool


class Setting(NamedTuple):
    """A setting of a script and what became of it; ``wrong``: what is not so in its file."""

    text: str
    kind: Kind
    wrong: str = ""


def names() -> list[str]:
    """Return the names of all scripts."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def data_of(name: str) -> dict[str, Any]:
    """Return a script's data: ``where``, ``read``, ``experiment`` and ``settings``."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def experiment_of(name: str) -> str:
    """Return the experiment of a script as it stands in its file."""
    text = (FOLDER / f"{name}.yaml").read_text()
    lines = text.partition("\nexperiment:\n")[2].partition("\nsettings:")[0].splitlines()
    return "".join(f"{line.removeprefix('  ')}\n" for line in lines)


def plan_of(name: str) -> Plan:
    """Return the plan of a script's experiment on its site."""
    experiment = load.load_experiment(source.parse(experiment_of(name), f"{name}.yml")).experiment
    site = shipped_site(experiment.batch.site or "")
    return make_plan(experiment, site, lambda path: Origin("place", f"{name}.yml {path}"))


def ours_of(plan: Plan, experiment: str) -> Iterator[Ours]:
    """Yield every setting of a plan's script in long form, and who says it."""
    for section, text, origin in explained.lines(plan):
        for setting in _settings(section, text):
            by_user = origin.kind in {"place", "key"} or name_of(setting) in _SIZES
            yield Ours(setting, by_user)
    for setting in said(plan):  # what no such line has
        if setting.startswith(("module ", "OMP_NUM_THREADS=")):
            yield Ours(setting, setting.split()[-1] in experiment)


_SIZES: Final = frozenset(("--nodes", "select", "-nnodes"))


def _settings(section: str, text: str) -> Iterator[str]:
    if section == "decided" and text.startswith(("output: ", "error: ")):
        yield f"--{text.replace(': ', '=')}"
    elif section.startswith("variables"):
        name, _, value = text.partition("=")
        yield f"{name}={' '.join(shlex.split(value))}"
    elif section == "setup":
        yield from commands(text)
    elif section in {"directives", "launch"}:
        yield from options([word for word in shlex.split(text) if not word.startswith("#")])


def settings_of(name: str) -> Iterator[Setting]:
    """Yield each setting of a script with what became of it."""
    plan, experiment = plan_of(name), experiment_of(name)
    script = "\n".join((render(plan), *(step.command for step in plan.steps)))
    ours = list(ours_of(plan, experiment))
    for key, note in data_of(name)["settings"].items():
        yield setting_of(str(key), note, ours, script, experiment)


def setting_of(key: str, note: Note, ours: Sequence[Ours], script: str, experiment: str) -> Setting:
    """Return what became of a setting, which is found in the script, or explained by its note."""
    if note is None or note == "own":
        found = _found(key, ours, _plain(script), _plain(experiment))
        if note:
            return Setting(key, "own", "" if found == "line" else f"it is no line of the experiment: {found}")
        return Setting(key, found) if found else Setting(key, "missing", "it is not in the script")
    if not isinstance(note, str):
        return _checked(key, note, ours, script)
    for kind in _NOTES:
        if note.startswith(f"{kind}: "):
            said = any(canonical(key) in {each.text, name_of(each.text)} for each in ours)
            return Setting(key, kind, "the script has it: remove the note" if said else "")
    return Setting(key, "missing", f"{note!r} begins with none of {', '.join(_NOTES)}")


def _checked(key: str, note: Mapping[str, str], ours: Sequence[Ours], script: str) -> Setting:
    """Return a setting that the script has in another spelling, or whose effect a text shows."""
    if set(note) == {"same", "why"}:
        found = next((each for each in ours if note["same"] == each.text), None)
        kind: Kind = "line" if found and found.by_user else "default"
        return Setting(key, kind, "" if found else f"{note['same']} is not in the script")
    text = script if "file" not in note else (ROOT / note["file"]).read_text()
    wanted = note["text"].removeprefix("! ")
    is_so = (wanted in text) != note["text"].startswith("! ")
    return Setting(key, "default", "" if is_so else f"not so: {note['text']}")


def _found(key: str, ours: Sequence[Ours], script: str, experiment: str) -> Kind | None:
    """Return whether a setting is in the script by default or by a line; None: it is not."""
    setting = canonical(key)
    for each in ours:
        whole = each.text == setting or name_of(each.text) == setting.removesuffix("=")
        if whole or (key.endswith(("/", "=", "-", ".")) and each.text.startswith(key)):
            return "line" if each.by_user else "default"
    plain = _plain(key)
    if plain in script:
        return "line" if plain in experiment else "default"
    return None


def _plain(text: str) -> str:
    """Return a text without quotes and with single spaces, for a search in it."""
    return re.sub(r"\s+", " ", re.sub(r"[\"'\\]", "", text))


def counts_of(name: str) -> Counter[Kind]:
    """Return how many settings of a script are of each kind."""
    return Counter(setting.kind for setting in settings_of(name))


def shares(total: Counter[Kind]) -> tuple[float, float]:
    """Return the share of defaults: of all settings, and of those that are not the job's own."""
    return total["default"] / total.total(), total["default"] / (total.total() - total["own"])


def main(chosen: Sequence[str]) -> None:
    """Print a row for each script, the sum, and what is wrong."""
    total: Counter[Kind] = Counter()
    print(f"{'script':26}{'settings':>9}" + "".join(f"{kind:>9}" for kind in KINDS))  # noqa: T201
    for name in chosen or names():
        found = list(settings_of(name))
        counts = Counter(setting.kind for setting in found)
        total += counts
        print(f"{name:26}{len(found):9}" + "".join(f"{counts[kind]:9}" for kind in KINDS))  # noqa: T201
        for setting in found:
            if setting.wrong or chosen:
                print(f"    {setting.kind:10}{setting.text}: {setting.wrong}")  # noqa: T201
    print(f"{'all':26}{total.total():9}" + "".join(f"{total[kind]:9}" for kind in KINDS))  # noqa: T201
    print("by default: {:.0%} of all, {:.0%} of those that are not the job's own".format(*shares(total)))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
