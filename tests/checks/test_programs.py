"""The standalone programs that tasks run without hpcdist."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
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
from hpcdist.checks import allreduce, connectivity, finding, login
from hpcdist.checks.connectivity import Link, TaskPlace
from hpcdist.checks.finding import Clock, HostRecord, LaunchRecord, read_record

SECRET: Final = b"of this job"
PROGRAMS: Final = ("host_info", "connectivity", "allreduce")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_one_file_for_python_3_8(name: str) -> None:
    tree = ast.parse(login.program(name), feature_version=(3, 8))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    others = {"horovod.torch", "mpi4py", "torch"} if name == "allreduce" else set()
    assert {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names} == others


def test_host_info_is_read_as_a_record() -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=login.program("host_info"), capture_output=True, text=True, check=True
    )
    read = read_record(done.stdout, finding.TaskRecord)
    assert read is not None
    host: HostRecord = read.host
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
    read = read_record(done.stdout, finding.TaskRecord)
    assert read is not None
    assert read.host.packages == {"torch": ""}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": {}}', '{"host": 1, "connectivity": 2}'])
def test_anything_but_a_record_is_read_as_none(text: str) -> None:
    assert read_record(text, finding.TaskRecord) is None


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
    alone = TaskPlace(0, 2, 0, 20000, ["n1"], "n1", SECRET)
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
    found = allreduce.available(dict.fromkeys(built, ""), lambda name: name in packages or None)
    assert [name for name, _ in found] == names


def test_nccl_requires_gpus_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind, seeing = (
        SimpleNamespace(cuda=SimpleNamespace(is_available=lambda available=available: available))
        for available in (False, True)
    )
    monkeypatch.setenv("HPCDIST_GPUS", "0")
    assert [allreduce.has_gpu(blind), allreduce.has_gpu(seeing)] == [False, True]
    monkeypatch.setenv("HPCDIST_GPUS", "")
    assert not allreduce.has_gpu(seeing)


def run_allreduce(folder: Path, record: dict[str, Any], **environment: str) -> dict[str, Any]:
    """Return the record of rank 0 after the program has run on a Python without packages."""
    file = folder / "task.0.json"
    file.write_text(json.dumps(record))
    bare = [sys.executable, "-I", "-S", "-", str(folder)]
    subprocess.run(bare, input=login.program("allreduce"), env=environment, text=True, check=True)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_no_allreduce_runs_after_failed_connections(tmp_path: Path) -> None:
    package(tmp_path, "torch")
    record = {"host": {"built": {}}, "connectivity": {"error": "x"}}
    assert run_allreduce(tmp_path, record) == record


def package(folder: Path, name: str) -> None:
    """Put a package that cannot be imported beside the program."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("raise ImportError('it was built for another MPI')\n")


def test_an_import_error_is_recorded_as_the_error_of_the_allreduce(tmp_path: Path) -> None:
    package(tmp_path, "mpi4py")
    (tmp_path / "allreduce.py").write_text(login.program("allreduce"))
    record = {"host": {"built": {}}, "connectivity": {"allreduces": [{"library": "sockets"}]}}
    (tmp_path / "task.0.json").write_text(json.dumps(record))
    words = [sys.executable, "-E", "-S", str(tmp_path / "allreduce.py"), str(tmp_path)]
    subprocess.run(words, env={"HPCDIST_RANK": "0"}, check=True)
    expected = {"library": "mpi4py", "error": "ImportError: it was built for another MPI"}
    assert json.loads((tmp_path / "task.0.json").read_text()) == {**record, "allreduces": [expected]}
    subprocess.run(words, env={"HPCDIST_RANK": "0", "HPCDIST_LAUNCH": "3"}, check=True)
    subprocess.run(words, env={"HPCDIST_RANK": "1", "HPCDIST_LAUNCH": "4"}, check=True)
    assert json.loads((tmp_path / "launch-3.json").read_text()) == {"allreduces": [expected]}
    assert not (tmp_path / "launch-4.json").exists()


def test_clock_offset_is_measured_by_round_trips() -> None:
    class Slow:
        """A head whose clock is 100 s ahead."""

        def send(self, value: object) -> None:
            assert value == "time"

        def receive(self) -> float:
            return time.time() + 100

    found = Clock(**connectivity.clock(Slow()))  # type: ignore[arg-type]
    assert abs(found.offset - 100) < 1


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 100, 511, 1999, 2000])
def test_each_node_meets_another_one_in_each_round_and_none_twice(size: int) -> None:
    found = allreduce.rounds(size, seed=size)
    assert len(found) == min(math.ceil(math.log2(size)) + 1, size - 1 + size % 2)
    for matches in found:
        assert len({node for match in matches for node in match}) == 2 * len(matches) == size - size % 2
    matches = [*itertools.chain(*found)]
    assert len({*matches}) == len(matches)
    assert all(left < right < size for left, right in matches)


def test_of_four_nodes_all_links_are_measured_and_another_seed_measures_others() -> None:
    assert {*itertools.chain(*allreduce.rounds(4))} == {*itertools.combinations(range(4), 2)}
    assert allreduce.rounds(64, 1) == allreduce.rounds(64, 1) != allreduce.rounds(64, 2)
    assert [allreduce.rounds(size) for size in (0, 1)] == [[], []]


def test_floats_hold_the_sums_of_many_ranks() -> None:
    """Each is below 2 ** 24; the sum of 100,000 ranks is exact."""
    total = sum(rank % 7 + 1 for rank in range(100_000))
    assert 7 * total < 1 << 24
    assert allreduce.numbers(32, 2).tolist() == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 2.0]


@pytest.mark.real
@pytest.mark.extended
def test_pairs_and_sums_by_gloo_where_no_task_has_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "launches").write_text("1\n2\tTRIED=0\tOTHER=a,b\n")
    record = {"host": {"built": {}}, "connectivity": {"allreduces": [{"library": "sockets"}]}}
    common = {"HPCDIST_SIZE": "3", "HPCDIST_LOCAL_RANK": "0", "HPCDIST_HEAD_ADDRESS": "127.0.0.1"}
    common |= {"HPCDIST_RUN_DIR": str(tmp_path), "TRIED": "1", "HPCDIST_PORT": str(free_port() - 1)}
    common |= {"OMP_NUM_THREADS": "1", "PATH": os.environ["PATH"]}
    hidden = login.program("allreduce").replace('"mpi4py": Mpi', '"no_such_library": Mpi')
    (tmp_path / "allreduce.py").write_text(hidden)
    for rank in range(3):
        (tmp_path / f"task.{rank}.json").write_text(json.dumps(record))
    processes = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "allreduce.py"), str(tmp_path)],
            env={**common, "HPCDIST_RANK": str(rank), "HPCDIST_NODE": str(rank)},
        )
        for rank in range(3)
    ]
    assert [process.wait(240) for process in processes] == [0] * 3
    read = read_record((tmp_path / "task.0.json").read_text(), LaunchRecord)
    assert read is not None
    (found,) = read.allreduces
    assert (found.library, found.network, found.ranks, found.error) == ("torch", "gloo", 3, "")
    assert {pair[:2] for pair in found.pairs} == {(0, 1), (0, 2), (1, 2)}
    assert all(pair.bandwidth > 0 for pair in found.pairs)
    assert (found.correct, found.wrong, found.bus_bandwidth > 0) == (True, (), True)
    assert found.variables == {"OTHER": (None,), "TRIED": ("1",)}
