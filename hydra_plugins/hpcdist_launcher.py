"""A launcher plug-in of Hydra: ``hydra/launcher=hpcdist`` runs the jobs of a multirun on an allocation.

Hydra finds plug-ins as modules of the namespace package ``hydra_plugins``, which must not have an
``__init__.py``. It executes them at each start, before they are in ``sys.modules``, where a dataclass would
look up annotations that are texts: here they are none.
"""

import logging
import os
import pickle  # of what this user pickled
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, filter_overrides, run_job, setup_globals
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

import hpcdist

_log = logging.getLogger(__name__)


@dataclass
class HpcdistLauncherConfig:
    """The keys of ``hydra.launcher``.

    ``experiment``: an experiment file, whose command is replaced; without one an experiment is made of
    ``name`` to ``env``, which are the arguments of `hpcdist.define`. ``walltime`` to ``qos`` are keys of
    ``batch``, and ``settings`` are any keys by their dotted paths, as ``--set``. ``concurrency``: how many
    jobs run at once. ``python``: the Python on the nodes, by default the one that runs Hydra.
    """

    _target_: str = "hydra_plugins.hpcdist_launcher.HpcdistLauncher"
    experiment: str | None = None
    site: str | None = None
    name: str = "${hydra.job.name}"
    framework: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    env: dict[str, Any] = field(default_factory=dict)
    walltime: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    concurrency: int | None = None
    runs_dir: str | None = None
    python: str | None = None


ConfigStore.instance().store(
    group="hydra/launcher", name="hpcdist", node=HpcdistLauncherConfig, provider="hpcdist"
)

_OF_A_FILE = ("framework", "nodes", "gpus_per_node", "tasks_per_node", "cpus_per_task", "env")
_OF_CALLS = ("concurrency", "python", "runs_dir")
_OF_BATCH = ("walltime", "account", "partition", "qos")


class HpcdistLauncher(Launcher):  # type: ignore[misc] # Hydra's classes are not read here
    """Runs each job of a multirun as a trial of one run, and returns what the jobs returned."""

    def __init__(self, **options: Any) -> None:
        plain = OmegaConf.to_container(OmegaConf.create(options), resolve=True)
        self.options = {name: value for name, value in plain.items() if value not in (None, {})}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what each job needs."""
        self.context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a job for each list of overrides, and return when all have ended; Ctrl-C leaves them running.

        Raises:
            HydraException: if hpcdist or the batch system refuses them.
        """
        setup_globals()
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        numbered = [(number, list(each)) for number, each in enumerate(job_overrides, initial_job_idx)]
        for number, overrides in numbered:
            _log.info("#%d : %s", number, " ".join(filter_overrides(overrides)))
        try:
            found = hpcdist.call_each(
                partial(_called, sys.path, self._pickled()),
                numbered,
                on=experiment(self.options),
                return_exceptions=True,
                **{name: self.options[name] for name in _OF_CALLS if name in self.options},
            )
        except hpcdist.HpcdistError as error:
            raise HydraException(f"{error}") from error
        return [
            self._failed(job[1], result) if isinstance(result, Exception) else result
            for job, result in zip(numbered, found, strict=True)
        ]

    def _pickled(self) -> bytes:
        """Return the application as bytes: its modules are found only when ``sys.path`` is as here."""
        import cloudpickle

        state = (self.context, self.task_function, self.config, Singleton.get_state())
        return bytes(cloudpickle.dumps(state))

    def _failed(self, overrides: list[str], error: Exception) -> JobReturn:
        """Return the result of a job that ended without one, such as one that was killed."""
        result = JobReturn(overrides=overrides, status=JobStatus.FAILED)
        result.cfg = self.context.config_loader.load_sweep_config(self.config, overrides)
        result.return_value = error
        return result


def experiment(options: Mapping[str, Any]) -> "hpcdist.Experiment":
    """Return the experiment of these options of ``hydra.launcher``.

    Raises:
        HydraException: if there is a file, and options that it has itself.
        hpcdist.ConfigError: if it is invalid.
    """
    batch = {name: options[name] for name in _OF_BATCH if name in options}
    own = {name: options[name] for name in _OF_A_FILE if name in options}
    settings, site = options.get("settings", {}), options.get("site")
    file = options.get("experiment")
    if not file:
        made = hpcdist.define(name=str(options["name"]), batch=batch, site=site, **own)
        return made.changed(settings={"run.cmd": "true", **settings})
    if own:
        names = ", ".join(own)
        raise HydraException(f"hydra.launcher has both an experiment file and {names}: write these in {file}")
    every = {"run.cmd": "true", **{f"batch.{name}": value for name, value in batch.items()}, **settings}
    return hpcdist.load(file, site=site, settings=every)


def _called(path: list[str], pickled: bytes, number: int, overrides: list[str]) -> JobReturn:
    """Run one job; what its function raises is in the result, as Hydra does it."""
    sys.path.extend(folder for folder in path if folder not in sys.path)
    context, task_function, config, state = pickle.loads(pickled)  # noqa: S301 - of the same user
    Singleton.set_state(state)
    setup_globals()
    own = context.config_loader.load_sweep_config(config, overrides)
    with open_dict(own.hydra.job) as job:
        job.id, job.num = os.environ["HPCDIST_JOB_ID"], number
    return run_job(
        hydra_context=context,
        task_function=task_function,
        config=own,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
