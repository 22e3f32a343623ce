"""Machines on which trainings are disturbed: this one, and it as the host of the stand-ins of PBS and LSF."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.chaos import processes
from tests.lsf import state

_TESTS: Final = Path(__file__).resolve().parents[1]
_SITE: Final = {
    "description": "a machine for tests",
    "launcher": "mpirun",
    "node_types": {"big": {"cpus": 32, "memory": 64000}},
    "partitions": {"normal": {"nodes": {"big": 1}}},
    "default_partition": "normal",
    "replica": {"cpus": 1},
}


class Machine(NamedTuple):
    """A machine in a folder.

    ``make`` puts it there and returns its users' variables; ``jobs``: whether each of its jobs has ended.
    ``programs``: the folder of its commands; ``submit`` and ``end``: those that submit and end jobs.
    """

    site: str
    programs: Path
    make: Callable[[Path], Mapping[str, str]]
    jobs: Callable[[Path], dict[str, bool]]
    submit: str = ""
    end: str = ""

    @property
    def follows(self) -> bool:
        """Whether a training has jobs that wait for the end of the one before."""
        return bool(self.end)

    def is_asked(self, folder: Path) -> bool:
        """Whether a submission from this folder is under way, be its hpcdist killed or not."""
        return any(self._submits(process, folder) for process in Path("/proc").glob("[0-9]*"))

    def _submits(self, process: Path, folder: Path) -> bool:
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_here = (process / "cwd").readlink() == folder
        except OSError:
            return False
        if self.follows:
            return is_here and any(word.endswith(self.submit.encode()) for word in words)
        # Here it is the bash that starts the script; before that has begun, a fork of these tests.
        starts = words[3:4] == [b"hpcdist"] and words[4].endswith(b".sh")
        return is_here and (starts or b"tests.chaos.sandbox" in words)


def _write_site(folder: Path, **keys: Any) -> None:
    (folder / "sites").mkdir()
    (folder / "sites" / "here.yaml").write_text(json.dumps({"name": "here", **keys, **_SITE}))


def _pbs(folder: Path) -> Mapping[str, str]:
    _write_site(folder, scheduler="pbs")
    config = {"hosts": {os.uname().nodename: {"ncpus": 32}}, "queues": ["normal"]}
    (folder / "spool").mkdir()
    (folder / "spool" / "config.json").write_text(json.dumps(config))
    return {"FAKE_PBS": str(folder / "spool"), "HPCDIST_SITE_PATH": str(folder / "sites")}


def _pbs_jobs(folder: Path) -> dict[str, bool]:
    found = _read(folder / "spool" / "jobs")
    return {f"{name}.fakepbs": record["state"] == "F" for name, record in found.items()}


def _lsf(folder: Path) -> Mapping[str, str]:
    _write_site(folder, scheduler="lsf", lsf={"request": "slots", "submit": "stdin"}, request_memory=False)
    state.make(folder / "spool", state.Config(hosts=(os.uname().nodename,)))
    return {"FAKE_LSF": str(folder / "spool"), "HPCDIST_SITE_PATH": str(folder / "sites")}


def _lsf_jobs(folder: Path) -> dict[str, bool]:
    found = _read(folder / "spool" / "jobs")
    return {name.removesuffix(".0"): record["stat"] in {"DONE", "EXIT"} for name, record in found.items()}


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}


def _local_jobs(folder: Path) -> dict[str, bool]:
    return {process.job: False for process in processes.of(folder)}


MACHINES: Final = (
    Machine("local", Path("/usr/bin"), lambda _: {}, _local_jobs),
    Machine("pbs", _TESTS / "pbs" / "fake", _pbs, _pbs_jobs, "qsub", "qdel"),
    Machine("lsf", _TESTS / "lsf" / "fake", _lsf, _lsf_jobs, "bsub", "bkill"),
)
