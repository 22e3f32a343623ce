"""Preferences: what a user wants in all experiments, from ``~/.config/hpcdist/config.yml``.

Only what follows the person from one experiment to the next is here: whom a job is charged to, where and how
long it may queue, who gets mail. What the program itself needs (``constraint``, ``exclusive``, ``signal``,
``requeue``, ``launcher``) stays in the experiment, which would not run in a colleague's hands without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from hpcdist.documents import fields, source, text_checks
from hpcdist.documents.fields import Model
from hpcdist.documents.tree import Document, Map
from hpcdist.errors import ConfigError, Key, Place, Problem, did_you_mean
from hpcdist.errors import Path as Keys
from hpcdist.experiment.model import Batch, Mail
from hpcdist.host.xdg import user_folder
from hpcdist.loading.load import Loaded, load_model
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.units import Walltime


class BatchDefaults(Model, frozen=True, kw_only=True):
    """What ``batch`` says where an experiment does not.

    ``account``, ``partition``, ``qos``, ``walltime`` and ``mail``: as in ``batch`` of an experiment.
    """

    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    walltime: Walltime | None = None
    mail: str | Mail | None = None


class Config(Model, frozen=True, kw_only=True):
    """The user's own file.

    ``site``: the machine, where nothing else names one; a file by its whole path, or from ``~`` on.
    ``defaults``: what holds on every site that has a batch system; on one that has none only its own section
    does. ``sites``: the same of single sites, by their names; they win over ``defaults``, key by key.
    ``trusted_runs``: folders of runs to which others may write, by their whole paths or from ``~`` on; all of
    them could replace what your jobs run.
    """

    site: str | None = None
    defaults: BatchDefaults = BatchDefaults()
    sites: dict[str, BatchDefaults] = {}
    trusted_runs: tuple[str, ...] = ()


class Preferences(NamedTuple):
    """The file as it was written, and what it says."""

    document: Document
    config: Config

    def place(self, *path: str) -> Place | None:
        """Return where a value stands in the file."""
        return self.document.place(path)


NONE = Preferences(Document(Map(), ""), Config())


def file(environment: Mapping[str, str]) -> Path | None:
    """Return ``$HPCDIST_CONFIG`` (empty: none), else ``~/.config/hpcdist/config.yml`` where it is there."""
    named = environment.get("HPCDIST_CONFIG")
    if named is not None:
        return Path(named) if named else None
    folder = user_folder("XDG_CONFIG_HOME", ".config", environment)
    paths = (folder / "config.yml", folder / "config.yaml") if folder else ()
    return next((path for path in paths if path.exists()), None)


def read(environment: Mapping[str, str]) -> Preferences:
    """Return the user's preferences; a file without a value, such as ``/dev/null``, has none.

    Raises:
        ConfigError: with every problem of the file, or when it cannot be read.
    """
    path = file(environment)
    if path and not path.exists():
        place = Place(str(path), 0, 0)
        raise ConfigError(Problem("there is no such file", hint="$HPCDIST_CONFIG names it", place=place))
    text = source.read_text(path) if path else ""
    if path is None or all(line.lstrip()[:1] in ("", "#") for line in text.splitlines()):
        return NONE
    document = source.parse(text, _shown(path))
    config = load_model(Config, document)
    problems = [document.locate(problem) for problem in _problems_of(config)]
    if problems:
        raise ConfigError(*problems)
    return Preferences(document, config)


def _shown(path: Path) -> str:
    with suppress(RuntimeError, ValueError):  # the user has no home, or it is elsewhere
        return f"~/{path.relative_to(Path.home())}"
    return str(path)


def _problems_of(config: Config) -> Iterator[Problem]:
    """Yield what no type can say."""
    named: list[tuple[Keys, BatchDefaults]] = [
        (("sites", name), defaults) for name, defaults in config.sites.items()
    ]
    for path, defaults in [(("defaults",), config.defaults), *named]:
        if isinstance(defaults.mail, Mail):
            yield from text_checks.mail_problems(defaults.mail.events, (*path, "mail", "events"))
    for number, text in enumerate(config.trusted_runs):
        if not text.startswith(("/", "~")):
            message = f"{text!r} would be another folder in every folder"
            yield Problem(message, ("trusted_runs", number), "write its whole path")


def unknown_sites(own: Preferences, known: Collection[str]) -> Iterator[Problem]:
    """Yield a warning for each section of a site that there is none of."""
    for name in own.config.sites:
        if name not in known:
            path = ("sites", Key(name))
            hint = did_you_mean(name, known, most=20)
            yield own.document.locate(Problem(f"there is no site {name!r}", path, hint, "warning"))


def filled(loaded: Loaded, own: Preferences, site: Site) -> Loaded:
    """Return the experiment with what its ``batch`` leaves open; each value keeps its place in the config."""
    data = loaded.document.data
    section = data.get("batch")
    batch = section.copy() if isinstance(section, Map) else Map(section or {}, place=data.place)
    for name in fields.key_names(BatchDefaults):
        wished = next((found for found in _sections(own, site) if found.get(name) is not None), None)
        if wished is not None and batch.get(name) is None:
            batch.copy_from(wished, name)
    built = fields.build(Batch, batch)[0] or loaded.experiment.batch
    if built == loaded.experiment.batch:
        return loaded
    changed = data.copy()
    changed.put("batch", batch, data.value_places.get("batch"), key_place=data.key_places.get("batch"))
    experiment = replace(loaded.experiment, batch=built)
    return loaded._replace(experiment=experiment, document=loaded.document._replace(data=changed))


def trusts(own: Preferences, runs_dir: Path) -> bool:
    """Whether the user takes this folder of runs as it is, whoever may write there."""
    return any(_real(Path(text)) == _real(runs_dir) for text in own.config.trusted_runs)


def _real(folder: Path) -> Path:
    with suppress(RuntimeError):  # there is no such user
        folder = folder.expanduser()
    return folder.resolve()


def _sections(own: Preferences, site: Site) -> Iterator[Map]:
    """Yield the sections that count on this site, the first that has a key wins."""
    data = own.document.data
    candidates = [(data.get("sites") or {}).get(site.name)]
    if schedulers.get(site.scheduler).is_batch_system:
        candidates.append(data.get("defaults"))
    return (section for section in candidates if isinstance(section, Map))
