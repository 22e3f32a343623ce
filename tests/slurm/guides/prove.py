"""A task that TF_CONFIG tells its role and its peers: each calls on every other, and all say who they are."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time

CONFIG = json.loads(os.environ["TF_CONFIG"])
ROLE, INDEX = CONFIG["task"]["type"], CONFIG["task"]["index"]
GPUS = os.environ.get("CUDA_VISIBLE_DEVICES", "")
ME = {
    "role": ROLE,
    "index": INDEX,
    "host": socket.gethostname(),
    "cpus": int(os.environ["OMP_NUM_THREADS"]),
    "gpus": len(GPUS.split(",")) if GPUS else 0,
}


def answer(server: socket.socket, answered: threading.Semaphore) -> None:
    """Tell every caller who this is."""
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(json.dumps(ME).encode())
        answered.release()


def ask(address: str) -> dict[str, object]:
    """Return what the task at this address says of itself."""
    host, port = address.rsplit(":", 1)
    end = time.monotonic() + 300
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                return dict(json.loads(connection.makefile().read()))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def main() -> None:
    """Serve, call on all, print what was found; parameter servers then serve for ever."""
    own = CONFIG["cluster"][ROLE][INDEX]
    server = socket.create_server(("", int(own.rsplit(":", 1)[1])), backlog=100)
    answered = threading.Semaphore(0)
    threading.Thread(target=answer, args=(server, answered), daemon=True).start()
    found = {
        f"{role} {index}": ask(address)
        for role, addresses in CONFIG["cluster"].items()
        for index, address in enumerate(addresses)
    }
    print("proof", json.dumps({"me": ME, "peers": found}), flush=True)
    while ROLE == "ps":
        time.sleep(1)
    for _ in found:  # each calls once, also this one
        answered.acquire(timeout=300)
    sys.exit(0)


if __name__ == "__main__":
    main()
