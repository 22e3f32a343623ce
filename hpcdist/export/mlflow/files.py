"""Artifacts of a run, and its models in the registry."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from hpcdist.errors import Problem, ServiceError
from hpcdist.export import kept
from hpcdist.export.items import Item
from hpcdist.export.mlflow import form
from hpcdist.tracking.files import Artifact

TAG: Final = "hpcdist.run"
"""The tag of runs and versions that has an item's key."""

_HASH: Final = "hpcdist.sha256"
_FOLDER: Final = "hpcdist"
_LIST: Final = f"{_FOLDER}/sent.json"


class Store:
    """The files of one run of a server."""

    def __init__(self, client: Any, uri: str, run: Any, item: Item) -> None:
        self._client = client
        self._uri = uri
        self._place: str = run.info.artifact_uri
        self._run_id: str = run.info.run_id
        self._item = item

    def send(self, texts: Mapping[str, str]) -> tuple[int, int, list[str]]:
        """Send artifacts, these documents and models that are not there.

        Return how many files and how many models, and what is odd about others, as sentences.

        Raises:
            ServiceError: if the server keeps files in a folder of another machine.
            MlflowException: if the server refuses, fails or does not answer.
        """
        own = {path: _identity(artifact) for path, artifact in self._item.artifacts.items()}
        own |= {
            f"{_FOLDER}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
        }
        if not own:
            return 0, 0, []
        check_reachable(self._uri, self._place)
        before = self._sent()
        new = {path for path in own if before.get(path) != own[path]}
        count, odd = self._send_artifacts(new & self._item.artifacts.keys())
        for name, text in texts.items():
            if f"{_FOLDER}/{name}" in new:
                self._client.log_text(self._run_id, text, f"{_FOLDER}/{name}")
                count += 1
        if new - odd.keys():
            done = json.dumps({path: own[path] for path in own if path not in odd})
            self._client.log_text(self._run_id, done, _LIST)
        models = self._register(odd)
        return (
            count,
            models,
            [f"{self._item.run.name}: {kept.in_run(path)} {why}" for path, why in odd.items()],
        )

    def _sent(self) -> dict[str, str]:
        """Return the hashes of the files that are there."""
        if _LIST not in [file.path for file in self._client.list_artifacts(self._run_id, _FOLDER)]:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(self._client.download_artifacts(self._run_id, _LIST, folder))
            try:
                found = json.loads(file.read_bytes())
            except (ValueError, RecursionError):
                return {}
        return found if isinstance(found, dict) else {}

    def _send_artifacts(self, paths: set[str]) -> tuple[int, dict[str, str]]:
        count = 0
        odd: dict[str, str] = {}
        for path in sorted(paths):
            found = kept.find(self._item.run.directory, path, self._item.artifacts[path])
            odd |= found.odd
            for file in found.files:
                self._send_file(file)
            count += len(found.files)
        return count, odd

    def _send_file(self, file: kept.File) -> None:
        """Send a file under the name that MLflow takes; its client has no argument for that."""
        target = self._path(file.path)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, target.name)
            place.symlink_to(file.place.absolute())
            self._client.log_artifact(self._run_id, str(place), "/".join(target.parts[:-1]))

    def _path(self, path: str) -> PurePath:
        """Return where a file of the outputs, or beside them, is in MLflow; an element's are its own."""
        beside = PurePath(path.removeprefix("../"))
        own = beside if path.startswith("../") else beside.relative_to(self._item.element or ".")
        return PurePath(form.path(str(own)))

    def _register(self, odd: Mapping[str, str]) -> int:
        """Make a version of each model that has none of this run and hash; return how many."""
        found = self._item.artifacts.items()
        models = {path: each for path, each in found if each.kind == "model" and path not in odd}
        there = self._versions() if models else set()
        new = {
            path: each
            for path, each in models.items()
            if (form.model(self._item, path), _identity(each)) not in there
        }
        for path, artifact in new.items():
            name = form.model(self._item, path)
            self._make_model(name)
            tags = {form.key(each): str(value) for each, value in artifact.metrics.items()}
            tags |= {_HASH: _identity(artifact), TAG: self._item.key}
            source = f"{self._place}/{self._path(path)}"
            self._client.create_model_version(name, source, self._run_id, tags, await_creation_for=30)
        return len(new)

    def _versions(self) -> set[tuple[str, str | None]]:
        versions = self._client.search_model_versions(f"run_id = '{self._run_id}'")
        return {(version.name, version.tags.get(_HASH)) for version in versions}

    def _make_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise


def _identity(artifact: Artifact) -> str:
    """Return the recorded hash; other clients than ours leave none."""
    return artifact.sha256 or f"{artifact.bytes} bytes"


def check_reachable(uri: str, place: str) -> None:
    """Refuse to write files of a server into a folder of this machine.

    A server without ``--serve-artifacts`` names a folder of its own, and MLflow's client would write there.

    Raises:
        ServiceError: if it is not here, or no place at all.
    """
    try:
        scheme, _, path, _, _ = urlsplit(place)
    except ValueError:
        raise ServiceError(Problem(f"the server keeps files in {place:.200}, which is no place")) from None
    is_folder = urlsplit(uri).scheme in ("http", "https") and scheme in ("", "file")
    if is_folder and not any(folder.is_dir() for folder in [*Path(unquote(path)).parents][:2]):
        hint = "start it with `mlflow server --serve-artifacts`"
        raise ServiceError(
            Problem(f"the server keeps files in {path}, which is not on this machine", hint=hint)
        )
