"""What programs record on the real Slurm, from `submit` alone; also when a rank or a node dies."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from tests.slurm.cluster import CHECKOUT
from tests.slurm.process import until
from tests.slurm.test_shapes import needs, shape
from tests.slurm.users import ENVIRONMENT, PYTHON, User
from tests.tracking.test_report_page import Read

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.usefixtures("examples")]

CLIENTS: Final = ("hpcdist", "polyaxon", "polyaxon-0", "file", "print")
POLYAXON: Final = CHECKOUT / ".frameworks" / "polyaxon" / "lib"

Numbers = Mapping[str, str]
"""The digits of each epoch's loss and of the accuracy, as the program prints them."""


def printed(log: str) -> Numbers:
    """Return what the program printed."""
    losses = re.findall(r"epoch (\d+)/\d+ loss (\S+)", log)
    return {**dict(losses), "accuracy": re.findall(r"test accuracy (\S+)", log)[0]}


def names(client: str) -> tuple[str, str]:
    """Return the names of loss and accuracy in a run of this client."""
    return ("printed_loss", "printed_accuracy") if client == "print" else ("loss", "accuracy")


def in_metrics(user: User, run: str, loss: str, accuracy: str) -> Numbers:
    text = user.hpcdist("metrics", run, loss, accuracy, "--csv").stdout
    rows = [*csv.DictReader(io.StringIO(text))]
    assert {row["rank"] for row in rows} == {"0"}
    found = {row["step"] if row["metric"] == loss else "accuracy": float(row["value"]) for row in rows}
    return {step: f"{value:.4f}" for step, value in found.items()}


def in_compare(user: User, run: str, loss: str, accuracy: str) -> Numbers:
    [row] = user.json("compare", run)
    return {"3": f"{row['metrics'][loss]:.4f}", "accuracy": f"{row['metrics'][accuracy]:.4f}"}


def in_list(user: User, run: str, loss: str, accuracy: str) -> Numbers:
    [row] = user.json("status", "--offline", "--name", run)
    return {"3": f"{row['metrics'][loss]:.4f}", "accuracy": f"{row['metrics'][accuracy]:.4f}"}


def in_report(user: User, run: str, loss: str, accuracy: str) -> Numbers:
    done = user.hpcdist("report", run, "-o", "report.html")
    assert done.returncode == 0, done.stderr
    plots = json.loads(Read((user.directory / "report.html").read_text()).scripts[0])["plots"]
    traces = {plot["name"]: plot["traces"] for plot in plots}
    [losses], [accuracies] = traces[loss], traces[accuracy]
    found = {str(int(step)): value for step, value in zip(losses["x"], losses["y"], strict=True)}
    return {name: f"{value:.4f}" for name, value in (found | {"accuracy": accuracies["y"][-1]}).items()}


VIEWS: Final[tuple[Callable[[User, str, str, str], Numbers], ...]] = (
    in_metrics,
    in_compare,
    in_list,
    in_report,
)
"""Each returns some or all of the numbers of a run, as one verb shows them."""

IN_MLFLOW: Final = """
import json, pathlib, subprocess, sys
from tests.tracking.mlflow.servers import served

folder = pathlib.Path("mlflow")
folder.mkdir()
with served(folder) as server:
    export = [sys.executable, "-m", "hpcdist", "export", *sys.argv[1:], "--mlflow", server.uri]
    subprocess.run(export, check=True, stdout=sys.stderr)
    names = [run.rpartition("-")[0] for run in sys.argv[1:]]
    [found] = zip(*map(server.runs, names), strict=True)
    print(json.dumps({
        run["info"]["run_name"]: {
            metric["key"]: server.history(run["info"]["run_id"], metric["key"])
            for metric in run["data"]["metrics"]
        }
        for run in found
    }))
"""


def in_mlflow(user: User, *runs: str) -> Mapping[str, Numbers]:
    """Return the numbers of these runs that a server of MLflow on the head has, once they are exported."""
    done = user.cluster.run(
        [PYTHON, "-c", IN_MLFLOW, *runs],
        cwd=user.directory,
        env=ENVIRONMENT | {"PYTHONPATH": str(CHECKOUT)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Numbers] = {}
    for run, metrics in json.loads(done.stdout).items():
        loss, accuracy = (metrics[name] for name in names(run.rpartition("-")[0]))
        found[run] = {str(step): f"{value:.4f}" for step, _, value in loss}
        found[run] = {**found[run], "accuracy": f"{accuracy[-1][2]:.4f}"}
    return found


@pytest.mark.extended
def test_every_client_and_every_verb_show_what_the_program_printed(user: User) -> None:
    """Polyaxon 2 and 0.x, hpcdist's own, files that programs write, and the output itself."""
    [packages] = POLYAXON.glob("python3*/site-packages")
    (user.directory / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(packages)!r})\n")
    both = {"PYTHONPATH": str(user.directory)}  # somebody who has installed Horovod and Polyaxon's client
    for client in CLIENTS:
        options = ("-p", f"client={client}", "--set", f"name={client}")
        done = user.hpcdist("submit", "examples/horovod_tracking.yml", *options, env=both)
        assert done.returncode == 0, done.stderr
    runs = [f"{client}-1" for client in CLIENTS]
    done = user.hpcdist("wait", *runs)
    assert done.returncode == 0, done.stdout + done.stderr + "".join(map(user.log, runs))
    for client, run in zip(CLIENTS, runs, strict=True):
        expected = printed(user.log(run))
        assert [*expected] == ["1", "2", "3", "accuracy"]
        for view in VIEWS:
            seen = view(user, run, *names(client))
            assert seen.items() <= expected.items(), (view, client)
        assert in_metrics(user, run, *names(client)) == expected
    assert in_mlflow(user, *runs) == {run: printed(user.log(run)) for run in runs}
    params = {row["run"]: row["params"]["client"] for row in user.json("compare", "--only-differing")}
    assert params == dict(zip(runs, CLIENTS, strict=True))


COUNTS: Final = """
import os, time
from hpcdist_tracking import log_metrics, rank

name = f"at-{rank()}"
begin = int(open(name).read()) // 100 * 100 if os.path.exists(name) else 0  # from its last checkpoint
file = os.open(name, os.O_RDWR | os.O_CREAT)
open(f"pid-{rank()}", "w").write(str(os.getpid()))
for step in range(begin, begin + 500 if begin else 10**9):
    log_metrics(step=step, at=step, all_ranks=True)
    os.pwrite(file, b"%08d" % step, 0)
    time.sleep(0.001)
"""
"""Each rank writes to a file up to which step it has recorded; started again, it goes on and ends."""


def counts(user: User, name: str, environment: Mapping[str, Any], **batch: Any) -> None:
    """Submit it, and return when both ranks have recorded 500 steps."""
    folder = user.directory / name
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "counts.py").write_text(COUNTS)
    keys = {"framework": "mpi", "environment": environment, "batch": batch}
    file = user.write(name, {**keys, "run": {"cmd": f"cd {folder} && python counts.py || exit 3"}})
    done = user.hpcdist("submit", file)
    assert done.returncode == 0, done.stderr
    until(lambda: min(reached(user, name)) > 500, f"{name} to have recorded 500 steps")


def nodes(user: User, name: str) -> list[str]:
    [file] = (user.directory / "runs" / f"{name}-1" / "jobs").glob("*/nodes")
    return file.read_text().split()


def reached(user: User, name: str) -> list[int]:
    files = [user.directory / name / f"at-{rank}" for rank in (0, 1)]
    return [int(file.read_text() or 0) if file.exists() else 0 for file in files]


def recorded(user: User, name: str, attempt: str, rank: int) -> list[int]:
    """Return the steps of one attempt, whose lines are whole but for a last one without its end."""
    [file] = (user.directory / "runs" / f"{name}-1" / "tracking").glob(f"*/{attempt}/rank-{rank}.*")
    return [json.loads(line)["step"] for line in file.read_text().rpartition("\n")[0].splitlines()]


def lost_nothing(user: User, name: str, rank: int, ended_at: int) -> None:
    """Whoever was killed had recorded all that it knew of, and both attempts are one line."""
    [first, second] = sorted(
        path.name for path in (user.directory / "runs" / f"{name}-1" / "tracking").glob("*/*")
    )
    steps = recorded(user, name, first, rank)
    assert steps == [*range(len(steps))]
    assert len(steps) > ended_at
    later = recorded(user, name, second, rank)
    assert later == [*range(later[0], later[0] + 500)]
    assert len(steps) - 1 - later[0] in range(102)  # and one that it had recorded, but did not know of
    done = user.hpcdist("metrics", f"{name}-1", "--csv")
    rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["rank"] == str(rank)]
    assert [int(row["step"]) for row in rows] == [*range(later[-1] + 1)]
    assert done.stderr == ""


def test_a_rank_that_is_killed_and_a_node_that_crashes_lose_at_most_one_line(user: User) -> None:
    counts(user, "rank", {**shape(needs(cpu=8), 1), "max_restarts": 1})
    counts(user, "node", shape(needs(cpu=16), 1), requeue=True)
    pid = (user.directory / "rank" / "pid-1").read_text()
    user.cluster.run(["kill", "-9", pid], node=nodes(user, "rank")[0], check=True)
    user.cluster.crash(nodes(user, "node")[1])
    ended = {name: reached(user, name) for name in ("rank", "node")}
    done = user.hpcdist("wait", "rank-1", "node-1")
    assert done.returncode == 0, done.stdout + user.log("rank-1") + user.log("node-1")
    lost_nothing(user, "rank", 1, 500)
    lost_nothing(user, "node", 1, ended["node"][1])
