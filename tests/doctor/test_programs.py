"""The standalone programs that tasks run without hpcdist."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from hpcdist import __version__
from hpcdist.doctor import allreduce, connectivity, login, measurement, records
from hpcdist.doctor.connectivity import Link, Task
from hpcdist.doctor.records import Clock, Host

SECRET: Final = b"of this job"
PROGRAMS: Final = ("host_info", "connectivity", "allreduce", "bandwidth", "exchanges", "pairing")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_one_file_for_python_3_8(name: str) -> None:
    tree = ast.parse(login.program(name), feature_version=(3, 8))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    others = {
        "allreduce": {"horovod.torch", "mpi4py", "torch"},
        "exchanges": {"mpi4py", "torch"},
        "bandwidth": {"exchanges", "pairing", "hpcdist.doctor"},
    }.get(name, set())
    assert {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names} == others


def test_host_info_is_read_as_a_record() -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=login.program("host_info"), capture_output=True, text=True, check=True
    )
    read = records.read(done.stdout)
    assert read is not None
    host: Host = read.host
    assert (host.host, host.executable) == (socket.gethostname(), sys.executable)
    assert host.packages["hpcdist"] == __version__
    assert set(host.limits) == {"nofile", "memlock", "stack", "nproc"}
    assert "lo" in host.interfaces


def test_package_with_empty_metadata_has_no_version(tmp_path: Path) -> None:
    """As an interrupted installation leaves it: importlib.metadata returns None there."""
    (tmp_path / "torch-2.0.dist-info").mkdir()
    bare = [sys.executable, "-E", "-S", "-"]  # PYTHONPATH may name a folder with packages
    words = login.program("host_info")
    done = subprocess.run(bare, input=words, cwd=tmp_path, capture_output=True, text=True, check=True)
    read = records.read(done.stdout)
    assert read is not None
    assert read.host.packages == {"torch": ""}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": {}}', '{"host": 1, "connectivity": 2}'])
def test_anything_but_a_record_is_read_as_none(text: str) -> None:
    assert records.read(text) is None


def start(tmp_path: Path, rank: int, secret: Path, port: int) -> subprocess.Popen[str]:
    """Start connectivity.py as a task of a job of two, on this host."""
    (tmp_path / "nodes").write_text("localhost\n")
    environment = {
        "HPCDIST_RANK": str(rank),
        "HPCDIST_SIZE": "2",
        "HPCDIST_NODE": "0",
        "HPCDIST_HEAD_ADDRESS": "127.0.0.1",
        "HPCDIST_PORT": str(port),
        "HPCDIST_JOB_DIR": str(tmp_path),
        "HPCDIST_RUN_DIR": str(secret.parent),
    }
    words = [sys.executable, "-", str(tmp_path / f"{rank}.json")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment, text=True)
    assert process.stdin
    process.stdin.write(login.program("connectivity"))
    process.stdin.close()
    return process


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_two_tasks_connect_and_sum(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    port = free_port()
    for process in [start(tmp_path, rank, tmp_path / "secret", port) for rank in range(2)]:
        assert process.wait(60) == 0
    for rank in range(2):
        met = json.loads((tmp_path / f"{rank}.json").read_text())["connectivity"]
        (one,) = met.pop("allreduces")
        clock = met.pop("clock")
        assert met == {"rank": rank, "node": 0, "names": {"localhost": ["127.0.0.1"]}, "error": ""}
        assert abs(clock["offset"]) <= clock["uncertainty"] + 0.001
        assert (one["library"], one["ranks"], one["bytes"], one["correct"]) == ("sockets", 2, 8 << 20, True)
        assert 0 < one["seconds"] < 30


def both(left: Callable[[], Any], right: Callable[[], Any]) -> list[Any]:
    """Run two sides that wait for each other; return the result or error of each."""
    found: list[Any] = [None, None]

    def run(place: int, side: Callable[[], Any]) -> None:
        try:
            found[place] = side()
        except (OSError, ValueError) as error:
            found[place] = str(error)

    threads = [threading.Thread(target=run, args=item) for item in enumerate((left, right))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        yield server, client


def links(sockets: tuple[socket.socket, socket.socket], guess: bytes) -> list[Any]:
    server, client = sockets
    return both(lambda: Link(server, SECRET, "server"), lambda: Link(client, guess, "client"))


def test_connection_without_the_secret_is_refused(sockets: tuple[socket.socket, socket.socket]) -> None:
    refused = "the other side does not know the job's secret"
    assert links(sockets, b"a guess") == [refused, refused]


def test_connection_with_the_secret_exchanges_data(sockets: tuple[socket.socket, socket.socket]) -> None:
    one, other = links(sockets, SECRET)
    one.send({"rank": 1})
    assert other.receive() == {"rank": 1}
    ones, others = b"a" * 99999, b"b" * 99999
    assert both(lambda: one.exchange(ones, one), lambda: other.exchange(others, other)) == [others, ones]
    one.file.close()
    sockets[0].close()
    with pytest.raises(ConnectionError, match="closed the connection"):
        other.receive()
    other.file.close()


def test_proof_of_one_side_is_not_valid_for_the_other() -> None:
    assert connectivity._proof(SECRET, "server", "1") != connectivity._proof(SECRET, "client", "1")


def test_integers_are_added_element_by_element() -> None:
    assert connectivity.add(
        connectivity.pattern(3, 100), connectivity.pattern(4, 100)
    ) == connectivity.pattern(7, 100)
    assert connectivity.pattern(2, 3) == b"".join(number.to_bytes(8, "little") for number in (2, 4, 6))


def test_unresolvable_name_has_the_resolver_error() -> None:
    found = connectivity.resolve(["localhost", "no-such-host.invalid"])
    assert found["localhost"] == ["127.0.0.1"]
    assert found["no-such-host.invalid"][0].startswith("(")


def test_node_listens_only_on_addresses_that_others_reach() -> None:
    """On a network that has a name of its own for the head as well: tests/slurm/test_doctor.py."""
    alone = Task(0, 2, 0, 20000, ["n1"], "n1", SECRET)
    assert connectivity.own_addresses(alone, {"n1": ["10.77.0.11"]}) == ["127.0.0.1"]
    two = alone._replace(nodes=["n1", "n2"])
    assert connectivity.own_addresses(two, {"n1": ["127.0.1.1"], "n2": ["(no answer)"]}) == []
    assert connectivity.own_addresses(two, {"n1": ["127.0.1.1"], "n2": ["127.0.0.9"]}) == []


@pytest.mark.parametrize(
    ("packages", "built", "names"),
    [
        (("torch", "mpi4py", "horovod"), ("mpi", "pytorch"), ["torch", "mpi4py", "horovod"]),
        (("torch", "horovod"), ("gloo", "pytorch"), ["torch"]),
        (("horovod", "tensorflow"), ("mpi", "tensorflow"), []),
        ((), (), []),
    ],
)
def test_available_allreduces_depend_on_installed_packages(
    packages: tuple[str, ...], built: tuple[str, ...], names: list[str]
) -> None:
    host = {"packages": dict.fromkeys(packages, "1"), "built": dict.fromkeys(built, "")}
    assert [name for name, _ in allreduce.available(host)] == names


def test_nccl_requires_gpus_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind, seeing = (
        SimpleNamespace(cuda=SimpleNamespace(is_available=lambda available=available: available))
        for available in (False, True)
    )
    monkeypatch.setenv("HPCDIST_GPUS", "0")
    assert [allreduce._has_gpu(blind), allreduce._has_gpu(seeing)] == [False, True]
    monkeypatch.setenv("HPCDIST_GPUS", "")
    assert not allreduce._has_gpu(seeing)


def test_no_allreduce_runs_after_failed_connections(tmp_path: Path) -> None:
    file = tmp_path / "task.0.json"
    text = json.dumps({"host": {"packages": {"torch": "2"}, "built": {}}, "connectivity": {"error": "x"}})
    file.write_text(text)
    subprocess.run([sys.executable, "-", str(file)], input=login.program("allreduce"), text=True, check=True)
    assert json.loads(file.read_text()) == {
        **json.loads(text),
        "connectivity": {"error": "x", "allreduces": []},
    }


def test_import_error_is_recorded_as_the_error_of_the_allreduce(tmp_path: Path) -> None:
    file = tmp_path / "task.0.json"
    done = {"library": "sockets", "correct": True}
    host = {"packages": {"mpi4py": "4"}, "built": {}}
    file.write_text(json.dumps({"host": host, "connectivity": {"allreduces": [done]}}))
    bare = [sys.executable, "-I", "-S", "-", str(file)]
    subprocess.run(bare, input=login.program("allreduce"), text=True, check=True)
    assert json.loads(file.read_text())["connectivity"]["allreduces"] == [
        done,
        {"library": "mpi4py", "error": "ModuleNotFoundError: No module named 'mpi4py'"},
    ]


def test_clock_offset_is_measured_by_round_trips() -> None:
    class Slow:
        """A head whose clock is 100 s ahead."""

        def send(self, value: object) -> None:
            assert value == "time"

        def receive(self) -> float:
            return time.time() + 100

    found = Clock(**connectivity.clock(Slow()))  # type: ignore[arg-type]
    assert abs(found.offset - 100) < 1


def bandwidth(folder: Path, kind: str, size: int) -> measurement.Measurement | None:
    """Return what tasks on nodes of this host measure, as the run directory has their programs."""
    for name in ("bandwidth", "exchanges", "pairing"):
        (folder / f"{name}.py").write_text(login.program(name))
    (folder / "nodes").write_text("".join(f"n{rank}\n" for rank in range(1, size + 1)))
    port = str(free_port() - 3)  # the store is at the third of the job's ports
    common = {"HPCDIST_SIZE": str(size), "HPCDIST_LOCAL_RANK": "0", "HPCDIST_HEAD_ADDRESS": "127.0.0.1"}
    (folder / "launches").write_text("1\t7\n2\t7\tTRIED=0\tOTHER=a,b\n")
    common |= {"HPCDIST_RUN_DIR": str(folder), "TRIED": "1"}
    common |= {"HPCDIST_PORT": port, "HPCDIST_JOB_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(folder / "bandwidth.py"), kind, str(folder)],
            env={**common, "HPCDIST_RANK": str(rank), "HPCDIST_NODE": str(rank)},
        )
        for rank in range(size)
    ]
    assert [process.wait(240) for process in processes] == [0] * size
    file = folder / f"bandwidth.1.{kind}.json"
    return measurement.read(file.read_text()) if file.exists() else None


@pytest.mark.real
@pytest.mark.extended
def test_bandwidths_by_gloo_where_no_task_has_a_gpu(tmp_path: Path) -> None:
    found = bandwidth(tmp_path, "torch", 3)
    assert found is not None
    assert (found.library, found.nodes, found.tasks, found.error) == ("gloo", ("n1", "n2", "n3"), 3, "")
    assert {pair[:2] for pair in found.pairs} == {(0, 1), (0, 2), (1, 2)}
    assert all(pair.bandwidth > 0 and pair.latency > 0 for pair in found.all_pairs)
    assert (found.planned, found.wrong, found.is_ring_right, found.done) == (15, (), True, True)
    assert found.variables == {"OTHER": (None,), "TRIED": ("1",)}
    assert found.ring > 0
    assert found.all_reduce > 0


def test_a_library_that_is_not_there_leaves_no_measurement(tmp_path: Path) -> None:
    assert bandwidth(tmp_path, "no_such_library", 2) is None
