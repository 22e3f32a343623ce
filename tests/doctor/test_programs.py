"""The programs that tasks run: by themselves, without hpcdist."""

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
from hpcdist.doctor import add_up, login, meet, records
from hpcdist.doctor.meet import Link, Task
from hpcdist.doctor.records import Clock, Host

SECRET: Final = b"of this job"
PROGRAMS: Final = ("look", "meet", "add_up")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_one_file_that_an_old_python_can_read(name: str) -> None:
    tree = ast.parse(login.program(name), feature_version=(3, 8))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    others = {"horovod.torch", "mpi4py", "torch"} if name == "add_up" else set()
    assert {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names} == others


def test_what_a_host_shows_can_be_read() -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=login.program("look"), capture_output=True, text=True, check=True
    )
    read = records.read(done.stdout)
    assert read is not None
    host: Host = read.host
    assert (host.host, host.executable) == (socket.gethostname(), sys.executable)
    assert host.packages["hpcdist"] == __version__
    assert set(host.limits) == {"nofile", "memlock", "stack", "nproc"}
    assert "lo" in host.interfaces


def test_a_package_whose_metadata_is_empty_has_no_version(tmp_path: Path) -> None:
    """As an installation that broke off leaves it: importlib.metadata tells None there."""
    (tmp_path / "torch-2.0.dist-info").mkdir()
    bare = [sys.executable, "-S", "-"]
    words = login.program("look")
    done = subprocess.run(bare, input=words, cwd=tmp_path, capture_output=True, text=True, check=True)
    read = records.read(done.stdout)
    assert read is not None
    assert read.host.packages == {"torch": ""}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": {}}', '{"host": 1, "meeting": 2}'])
def test_what_is_no_record_is_none(text: str) -> None:
    assert records.read(text) is None


def start(tmp_path: Path, rank: int, secret: Path, port: int) -> subprocess.Popen[str]:
    """Start meet.py as a task of a job of two, on this host."""
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
    process.stdin.write(login.program("meet"))
    process.stdin.close()
    return process


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_two_tasks_meet_and_add_up(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    port = free_port()
    for process in [start(tmp_path, rank, tmp_path / "secret", port) for rank in range(2)]:
        assert process.wait(60) == 0
    for rank in range(2):
        met = json.loads((tmp_path / f"{rank}.json").read_text())["meeting"]
        (one,) = met.pop("sums")
        clock = met.pop("clock")
        assert met == {"rank": rank, "node": 0, "names": {"localhost": ["127.0.0.1"]}, "error": ""}
        assert abs(clock["ahead"]) <= clock["give_or_take"] + 0.001
        assert (one["by"], one["ranks"], one["bytes"], one["right"]) == ("sockets", 2, 8 << 20, True)
        assert 0 < one["seconds"] < 30


def both(left: Callable[[], Any], right: Callable[[], Any]) -> list[Any]:
    """Return what two sides that wait for each other come to, errors included."""
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
def wires() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        host, _ = server.accept()
    with caller, host:
        yield host, caller


def links(wires: tuple[socket.socket, socket.socket], guess: bytes) -> list[Any]:
    host, caller = wires
    return both(lambda: Link(host, SECRET, "host"), lambda: Link(caller, guess, "caller"))


def test_a_stranger_is_not_let_in(wires: tuple[socket.socket, socket.socket]) -> None:
    stranger = "who answers does not know the job's secret"
    assert links(wires, b"a guess") == [stranger, stranger]


def test_who_knows_the_secret_is_heard(wires: tuple[socket.socket, socket.socket]) -> None:
    one, other = links(wires, SECRET)
    one.send({"rank": 1})
    assert other.receive() == {"rank": 1}
    ones, others = b"a" * 99999, b"b" * 99999
    assert both(lambda: one.swap(ones, one), lambda: other.swap(others, other)) == [others, ones]
    one.file.close()
    wires[0].close()
    with pytest.raises(ConnectionError, match="hung up"):
        other.receive()
    other.file.close()


def test_a_stranger_that_only_repeats_what_it_hears_is_not_let_in() -> None:
    """The proof of one side is none of the other's."""
    assert meet._proof(SECRET, "host", "1") != meet._proof(SECRET, "caller", "1")


def test_numbers_are_added_side_by_side() -> None:
    assert meet.added(meet.pattern(3, 100), meet.pattern(4, 100)) == meet.pattern(7, 100)
    assert meet.pattern(2, 3) == b"".join(number.to_bytes(8, "little") for number in (2, 4, 6))


def test_a_name_that_nobody_knows_is_told_with_the_reason() -> None:
    found = meet.resolved(["localhost", "no-such-host.invalid"])
    assert found["localhost"] == ["127.0.0.1"]
    assert found["no-such-host.invalid"][0].startswith("(")


def test_a_node_listens_where_others_reach_it_only() -> None:
    """On a network that has a name of its own for the head as well: tests/slurm/test_doctor.py."""
    alone = Task(0, 2, 0, 20000, ["n1"], "n1", SECRET)
    assert meet.own_addresses(alone, {"n1": ["10.77.0.11"]}) == ["127.0.0.1"]
    two = alone._replace(nodes=["n1", "n2"])
    assert meet.own_addresses(two, {"n1": ["127.0.1.1"], "n2": ["(no answer)"]}) == []
    assert meet.own_addresses(two, {"n1": ["127.0.1.1"], "n2": ["127.0.0.9"]}) == []


@pytest.mark.parametrize(
    ("packages", "built", "names"),
    [
        (("torch", "mpi4py", "horovod"), ("mpi", "pytorch"), ["torch", "mpi4py", "horovod"]),
        (("torch", "horovod"), ("gloo", "pytorch"), ["torch"]),
        (("horovod", "tensorflow"), ("mpi", "tensorflow"), []),
        ((), (), []),
    ],
)
def test_it_is_added_up_by_what_is_there(
    packages: tuple[str, ...], built: tuple[str, ...], names: list[str]
) -> None:
    host = {"packages": dict.fromkeys(packages, "1"), "built": dict.fromkeys(built, "")}
    assert [name for name, _ in add_up.wanted(host)] == names


def test_nccl_sums_only_where_tasks_have_gpus_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind, seeing = (
        SimpleNamespace(cuda=SimpleNamespace(is_available=lambda told=told: told)) for told in (False, True)
    )
    monkeypatch.setenv("HPCDIST_GPUS", "0")
    assert [add_up._has_gpu(blind), add_up._has_gpu(seeing)] == [False, True]
    monkeypatch.setenv("HPCDIST_GPUS", "")
    assert not add_up._has_gpu(seeing)


def test_tasks_that_did_not_meet_add_nothing_up(tmp_path: Path) -> None:
    file = tmp_path / "task.0.json"
    text = json.dumps({"host": {"packages": {"torch": "2"}, "built": {}}, "meeting": {"error": "x"}})
    file.write_text(text)
    subprocess.run([sys.executable, "-", str(file)], input=login.program("add_up"), text=True, check=True)
    assert json.loads(file.read_text()) == {**json.loads(text), "meeting": {"error": "x", "sums": []}}


def test_a_package_that_cannot_be_imported_is_an_error_of_its_sum(tmp_path: Path) -> None:
    file = tmp_path / "task.0.json"
    done = {"by": "sockets", "right": True}
    host = {"packages": {"mpi4py": "4"}, "built": {}}
    file.write_text(json.dumps({"host": host, "meeting": {"sums": [done]}}))
    bare = [sys.executable, "-I", "-S", "-", str(file)]
    subprocess.run(bare, input=login.program("add_up"), text=True, check=True)
    assert json.loads(file.read_text())["meeting"]["sums"] == [
        done,
        {"by": "mpi4py", "error": "ModuleNotFoundError: No module named 'mpi4py'"},
    ]


def test_a_clock_is_compared_by_round_trips() -> None:
    class Slow:
        """A head whose clock is 100 s ahead."""

        def send(self, value: object) -> None:
            assert value == "time"

        def receive(self) -> float:
            return time.time() + 100

    found = Clock(**meet.clock(Slow()))  # type: ignore[arg-type]
    assert abs(found.ahead - 100) < 1
