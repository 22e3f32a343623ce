"""The program of `hpcdist.call`: each task calls the function once; it needs cloudpickle alone.

It stands in the run directory as ``call.py``, beside ``call.txt`` with the function. Results are files there,
readable by their owner only: ``call.returned`` of rank 0, and of each rank that failed ``call.raised.RANK``;
of the calls of `hpcdist.call_each` they begin with ``call.TRIAL``.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pickle  # what the run's own user wrote
import sys
import traceback
from pathlib import Path

RANKS = ("RANK", "HOROVOD_RANK", "HPCDIST_RANK")


def main(digest: str, trial: str = "") -> int:
    """Call the function that has this digest, and keep what it returned or raised.

    ``trial``: the number of the arguments, from 1, where there are several.
    """
    folder = Path(os.environ["HPCDIST_RUN_DIR"])
    rank = int(next(filter(None, map(os.environ.get, RANKS)), "0"))
    name = f"call.{trial}" if trial else "call"
    failed = folder / f"{name}.raised.{rank}"
    if failed.exists():  # of an earlier attempt
        failed.unlink()
    sys.path.append(str(Path.cwd()))  # last: the folder may be shared
    try:
        value = _called((folder / "call.txt").read_text(encoding="ascii"), digest, trial)
        if rank == 0:
            _keep(folder / f"{name}.returned", _pickled(value))
    except BaseException as error:
        _keep(failed, _failure(error))
        raise
    return 0


def _called(text: str, digest: str, trial: str) -> object:
    version, _, encoded = text.partition(" ")
    here = ".".join(map(str, sys.version_info[:2]))
    if version != here:
        raise RuntimeError("the function was pickled by Python " + version + ", and this is " + here)
    if hashlib.sha256(encoded.encode()).hexdigest() != digest:
        raise RuntimeError("call.txt is not what was submitted")
    function, arguments = pickle.loads(base64.b64decode(encoded))  # noqa: S301 - the user's own
    return function(*(arguments[int(trial) - 1] if trial else arguments))


def _pickled(value: object) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def _failure(error: BaseException) -> bytes:
    """Return the exception and its traceback as text; without the exception if that cannot be pickled."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        return _pickled((error, text))
    except Exception:  # noqa: BLE001 - of whatever kind: the text is there
        return pickle.dumps((None, text))


def _keep(file: Path, data: bytes) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    new.replace(file)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
