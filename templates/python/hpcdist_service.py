"""Starts Jupyter or TensorBoard as the program of a job, for a browser elsewhere.

Usage: hpcdist_service.py notebook lab|notebook|server
       hpcdist_service.py tensorboard

It needs Python alone (3.6 or later). The server listens on the node's loopback, or a notebook with the param
`bind: node` on all its addresses. Jupyter's token is in the file `token` of the run directory, which only its
owner can read, and in no argument, variable or output. Once the server is up, `address.json` there and the
output name it.
"""

import getpass
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from typing import Any, Dict, List, Set

ANYWHERE = "0.0.0.0"  # noqa: S104 - by `bind: node` only, where a token is asked for
PAUSE = 0.2
TRIES = 5
SUBMIT_HOSTS = ("SLURM_SUBMIT_HOST", "PBS_O_HOST", "LSB_SUB_HOST", "SGE_O_HOST")
OPEN = "Jupyter answers without its token: your own settings of Jupyter turn it off, and it was ended"


def main(kind: str, flavour: str = "") -> int:
    """Start the server, announce it, and return its exit code; of several ports the first that is free."""
    folder = os.environ["HPCDIST_RUN_DIR"]
    params = json.loads(os.environ.get("POLYAXON_PARAMS") or "{}")
    everywhere = params.get("bind") == "node"
    with suppress(OSError):
        os.unlink(os.path.join(folder, "address.json"))  # of an earlier attempt that was killed
    environment = dict(os.environ)
    token = ""
    if kind == "notebook":
        token = secrets.token_urlsafe(32)
        environment["JUPYTER_TOKEN_FILE"] = written(os.path.join(folder, "token"), token)
    for _ in range(TRIES):
        port = free_port()
        words = command(kind, flavour, port, params, everywhere)
        try:
            process = subprocess.Popen(words, env=environment, cwd=params.get("folder") or None)
        except OSError as error:
            return failed("%s cannot be started: %s: %s" % (words[0], error.filename, error.strerror))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, partial(_pass_on, process))
        if is_up(process, port):
            return serve(process, address(kind, flavour, port, everywhere, folder), token)
        if not listeners(port):
            return ended(process)
    return failed("no port was free, of %d that were tried" % TRIES)


def _pass_on(process: "subprocess.Popen[bytes]", number: int, _: object) -> None:
    """Let the server end; it is not announced any more, as a launcher may soon kill this process."""
    with suppress(OSError):
        os.unlink(os.path.join(os.environ["HPCDIST_RUN_DIR"], "address.json"))
    process.send_signal(number)


def command(kind: str, flavour: str, port: int, params: Dict[str, Any], everywhere: bool) -> List[str]:
    """Return the argv of the server; no part of it is a secret."""
    if kind == "tensorboard":
        logs = params.get("logdir") or os.path.dirname(os.environ["HPCDIST_RUN_DIR"])
        return ["tensorboard", "--logdir", str(logs), "--host", "127.0.0.1", "--port", str(port)]
    host = ANYWHERE if everywhere else "127.0.0.1"
    words = ["jupyter", flavour, "--no-browser", "--ip=" + host, "--port=%d" % port, "--port-retries=0"]
    return words + (["--allow-root"] if os.getuid() == 0 else [])


def serve(process: "subprocess.Popen[bytes]", found: Dict[str, Any], token: str) -> int:
    """Announce a server, and wait for its end; one that needs no token is ended."""
    if token and not asks_for_token(found["port"]):
        process.terminate()
        process.wait()
        return failed(OPEN)
    file = os.path.join(os.environ["HPCDIST_RUN_DIR"], "address.json")
    written(file, json.dumps(found))
    lines = ["%s is up on %s, port %d; on your own machine:" % (found["kind"], found["node"], found["port"])]
    lines += ["  " + found["tunnel"], "  then open " + found["url"]]
    lines += ["  with the token in " + found["token"]] if found["token"] else []
    sys.stdout.write("hpcdist: " + "\n".join(lines) + "\n")
    sys.stdout.flush()
    try:
        return ended(process)
    finally:
        with suppress(OSError):
            os.unlink(file)


def address(kind: str, flavour: str, port: int, everywhere: bool, folder: str) -> Dict[str, Any]:
    """Return where the server is, and the command that makes a tunnel to it."""
    node, user = socket.gethostname(), getpass.getuser()
    login = next(filter(None, map(os.environ.get, SUBMIT_HOSTS)), "")
    own = not login or login.split(".")[0] == node.split(".")[0]
    inner = node if everywhere else "localhost"
    hop = "" if own or everywhere else "-J %s@%s " % (user, login)
    last = login or node if everywhere else node
    tunnel = "ssh -N -L %d:%s:%d %s%s@%s" % (port, inner, port, hop, user, last)
    path = {"lab": "lab", "notebook": "tree"}.get(flavour, "")
    token = os.path.join(folder, "token") if kind == "notebook" else ""
    url = "http://localhost:%d/%s" % (port, path)
    return {"kind": kind, "node": node, "port": port, "url": url, "tunnel": tunnel, "token": token}


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_up(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Wait until the server listens, or has ended; a listener of another user is not it."""
    while process.poll() is None:
        if os.getuid() in listeners(port):
            return True
        time.sleep(PAUSE)
    return False


def listeners(port: int) -> Set[int]:
    """Return the users that listen on a port (proc(5), net/tcp)."""
    found = set()  # type: Set[int]
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + name) as stream:
                rows = [line.split() for line in stream.readlines()[1:]]
        except OSError:
            continue
        found.update(int(row[7]) for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port)
    return found


def asks_for_token(port: int) -> bool:
    """Whether Jupyter refuses a request without its token."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            opener.open("http://127.0.0.1:%d/api/contents" % port, timeout=60).close()
        except urllib.error.HTTPError as error:
            return error.code in (401, 403)
        except OSError:  # it listens, and does not answer yet
            time.sleep(PAUSE)
            continue
        return False


def written(file: str, text: str) -> str:
    """Write a file that its owner alone can read, whole or not at all; return its name."""
    new = "%s.%d" % (file, os.getpid())
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    os.rename(new, file)
    return file


def ended(process: "subprocess.Popen[bytes]") -> int:
    """Return the exit code of a server when it has ended, as a shell does of one that a signal ended."""
    code = process.wait()
    return code if code >= 0 else 128 - code


def failed(message: str) -> int:
    """Print why it ends, and return the exit code."""
    sys.stderr.write("hpcdist: " + message + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
