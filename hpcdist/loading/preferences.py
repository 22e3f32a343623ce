"""Preferences: a user's defaults for all experiments, from ``~/.config/hpcdist/config.yml``.

Only settings of the person are here: the account, the partition and walltime, the address for mail. What the
program itself needs (``constraint``, ``exclusive``, ``signal``, ``requeue``, ``launcher``) belongs to the
experiment, which would not run for a colleague without it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base import fields, source, text_checks, words
from hpcdist.base.errors import ConfigError, Key, Place, Problem, did_you_mean
from hpcdist.base.errors import Path as Keys
from hpcdist.base.fields import Model
from hpcdist.base.ownership import user_folder
from hpcdist.base.tree import Document, Map
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import Batch, Mail
from hpcdist.experiment.problems import MOST_GPU_HOURS
from hpcdist.loading.load import Loaded, load_model
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

REMOTE_PATH: Final = re.compile(
    r"(?:~(?=/)|\$\{?(?P<variable>[A-Za-z_][A-Za-z0-9_]*)\}?|(?=/))(?P<rest>(?:/[^\n\0]*)?)"
)
"""A path on a remote: an absolute one, or one that begins with ``~`` or a variable there."""


class BatchDefaults(Model, frozen=True, kw_only=True):
    """Defaults of ``batch``.

    ``account``, ``partition``, ``qos``, ``walltime``, ``mail`` and ``exclude_bad_nodes``: as in ``batch`` of
    an experiment. ``max_gpu_hours``: also as there, but one of an experiment can only be lower.
    """

    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    walltime: Walltime | None = None
    mail: str | Mail | None = None
    max_gpu_hours: float | None = None
    exclude_bad_nodes: bool | None = None


class RemoteMachine(Model, frozen=True, kw_only=True):
    """A machine that is reached by ssh, for `--on NAME`.

    ``host``: as `ssh` takes it, such as ``user@login.example.org`` or a name of your ssh config.
    ``directory``: the folder of runs there; it may begin with ``~`` or with a variable there, such as
    ``$SCRATCH/hpcdist``. ``site``: its site, if that has not the remote's name. ``python``: the Python there
    whose folder jobs find first in PATH. ``trusted``: whether results of calls are taken from it: reading one
    runs on this machine what that one wrote.
    """

    host: str
    directory: str
    site: str | None = None
    python: str | None = None
    trusted: bool = False


class Config(Model, frozen=True, kw_only=True):
    """The user's config file.

    ``site``: the machine, if nothing else names one; a file as an absolute path, or with ``~``. ``defaults``:
    defaults of ``batch`` for every site with a batch system; a site without one uses only its own section.
    ``sites``: defaults for single sites, by name; they override ``defaults``, key by key. ``trusted_runs``:
    folders of runs to which others may write, as absolute paths, or with ``~``; all of these users could
    replace what your jobs run. ``remotes``: machines that are reached by ssh, by name.
    """

    site: str | None = None
    defaults: BatchDefaults = BatchDefaults()
    sites: dict[str, BatchDefaults] = {}
    trusted_runs: tuple[str, ...] = ()
    remotes: dict[str, RemoteMachine] = {}


class Preferences(NamedTuple):
    """The config file as a document and as a model."""

    document: Document
    config: Config

    def place(self, *path: str) -> Place | None:
        """Return the place of a value in the file."""
        return self.document.place(path)


NONE = Preferences(Document(Map(), ""), Config())


def file(environment: Mapping[str, str]) -> Path | None:
    """Return ``$HPCDIST_CONFIG`` (empty: none), else ``~/.config/hpcdist/config.yml`` if that exists."""
    named = environment.get("HPCDIST_CONFIG")
    if named is not None:
        return Path(named) if named else None
    folder = user_folder("XDG_CONFIG_HOME", ".config", environment)
    paths = (folder / "config.yml", folder / "config.yaml") if folder else ()
    return next((path for path in paths if path.exists()), None)


def read(environment: Mapping[str, str]) -> Preferences:
    """Return the user's preferences; an empty file, such as ``/dev/null``, has none.

    Raises:
        ConfigError: with every problem of the file, or when it cannot be read.
    """
    path = file(environment)
    if path and not path.exists():
        place = Place(str(path), 0, 0)
        raise ConfigError(Problem("there is no such file", hint="it is set in $HPCDIST_CONFIG", place=place))
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
    """Yield the problems that types do not exclude."""
    named: list[tuple[Keys, BatchDefaults]] = [
        (("sites", name), defaults) for name, defaults in config.sites.items()
    ]
    for path, defaults in [(("defaults",), config.defaults), *named]:
        if isinstance(defaults.mail, Mail):
            yield from text_checks.mail_problems(defaults.mail.events, (*path, "mail", "events"))
        most = defaults.max_gpu_hours
        if most is not None and not 0 < most < MOST_GPU_HOURS:
            where = (*path, "max_gpu_hours")
            yield Problem(f"{most:g} is out of range", where, "write a number of GPU-hours")
    yield from _remote_problems(config.remotes)
    for number, text in enumerate(config.trusted_runs):
        if not text.startswith(("/", "~")):
            message = f"{text!r} is relative to the current folder"
            yield Problem(message, ("trusted_runs", number), "write an absolute path")


def _remote_problems(remotes: Mapping[str, RemoteMachine]) -> Iterator[Problem]:
    """Yield what is wrong with remotes: ssh takes a host that begins with a dash for an option."""
    for name, remote in remotes.items():
        path: Keys = ("remotes", Key(name))
        if not words.RUN_NAME.fullmatch(name):
            yield Problem(f"{name!r} is not a valid name of a remote", path, words.RUN_NAME_FORM)
        if not re.fullmatch(r"[A-Za-z0-9_.@:\[\]%+][-A-Za-z0-9_.@:\[\]%+/]*", remote.host):
            hint = "write USER@HOST, or a name of your ssh config"
            yield Problem(f"{remote.host!r} is not a host", (*path, "host"), hint)
        for key, text in (("directory", remote.directory), ("python", remote.python)):
            if text is not None and not REMOTE_PATH.fullmatch(text):
                hint = "begin with /, ~/ or a variable there, such as $SCRATCH/hpcdist"
                yield Problem(f"{text!r} is no absolute path", (*path, key), hint)


def unknown_sites(own: Preferences, known: Collection[str]) -> Iterator[Problem]:
    """Yield a warning for each section whose site does not exist."""
    for name in own.config.sites:
        if name not in known:
            path = ("sites", Key(name))
            hint = did_you_mean(name, known, most=20)
            yield own.document.locate(Problem(f"there is no site {name!r}", path, hint, "warning"))


def with_defaults(loaded: Loaded, own: Preferences, site: Site) -> Loaded:
    """Return the experiment with the defaults of its ``batch``; each value has its place in the config."""
    data = loaded.document.data
    section = data.get("batch")
    batch = section.copy() if isinstance(section, Map) else Map(section or {}, place=data.place)
    for name in fields.key_names(BatchDefaults):
        source_section = next((found for found in _sections(own, site) if found.get(name) is not None), None)
        if source_section is not None and _applies(name, source_section[name], batch):
            batch.copy_from(source_section, name)
    built = fields.build(Batch, batch)[0] or loaded.experiment.batch
    if built == loaded.experiment.batch:
        return loaded
    changed = data.copy()
    changed.put("batch", batch, data.value_places.get("batch"), key_place=data.key_places.get("batch"))
    experiment = replace(loaded.experiment, batch=built)
    return loaded._replace(experiment=experiment, document=loaded.document._replace(data=changed))


def _applies(name: str, default: float, batch: Map) -> bool:
    """Whether a default is used: the experiment has no value, or allows more than its user does."""
    own = batch.get(name)
    return own is None or (name == "max_gpu_hours" and default < float(own))


def trusts(own: Preferences, runs_dir: Path) -> bool:
    """Whether the user trusts this folder of runs to which others may write."""
    return any(_real(Path(text)) == _real(runs_dir) for text in own.config.trusted_runs)


def _real(folder: Path) -> Path:
    with suppress(RuntimeError):  # there is no such user
        folder = folder.expanduser()
    return folder.resolve()


def _sections(own: Preferences, site: Site) -> Iterator[Map]:
    """Yield the sections that apply to this site; the first that has a key wins."""
    data = own.document.data
    candidates = [(data.get("sites") or {}).get(site.name)]
    if schedulers.get(site.scheduler).is_batch_system:
        candidates.append(data.get("defaults"))
    return (section for section in candidates if isinstance(section, Map))
