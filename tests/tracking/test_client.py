"""`hpcdist_tracking` as programs use it: in processes of their own, with Python alone."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wording import Wording

CHECKOUT: Final = Path(__file__).parents[2]
MODULES_FOLDER: Final = CHECKOUT / "templates" / "python"
MODULES: Final = sorted(file.stem for file in MODULES_FOLDER.glob("*.py"))
HEAD: Final = "import os\nfrom hpcdist_tracking import *\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment(**variables: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(MODULES_FOLDER),
        "HPCDIST_TRACKING": "tracking",
        "HPCDIST_OUTPUTS": "outputs",
        **variables,
    }


def run(program: str, **variables: str) -> str:
    """Run a program, which must end well; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def lines(pattern: str = "rank-0.*") -> list[dict[str, Any]]:
    """Return what was recorded, without its time."""
    texts = [
        line for file in sorted(Path("tracking").glob(pattern)) for line in file.read_text().splitlines()
    ]
    entries = [json.loads(text) for text in texts]
    assert all(abs(entry.pop("at") - time.time()) < 600 for entry in entries)
    return entries


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_for_any_python_from_3_6_on(name: str) -> None:
    """Nodes may have an old one; what it imports is in the standard library, one of them, or Ray."""
    tree = ast.parse((MODULES_FOLDER / f"{name}.py").read_text(), feature_version=(3, 6))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | {*MODULES, "ray"}


def test_a_call_is_a_line() -> None:
    program = """
log_params(lr=0.1, layers=[64, 32], optimizer={"name": "sgd", "nesterov": True}, file=os.devnull, none=None)
log_params({"batch size": 256})
log_tags("first", 2)
log_metrics(step=1, loss=0.5, images=10**20)
log_metrics({"val/accuracy": float("nan"), "best": float("-inf")}, step=2.5)
log_metrics(flag=True)
"""
    assert run(program) == ""
    assert lines() == [
        {
            "params": {
                "lr": 0.1,
                "layers": [64, 32],
                "optimizer": {"name": "sgd", "nesterov": True},
                "file": "/dev/null",
                "none": None,
            }
        },
        {"params": {"batch size": 256}},
        {"tags": ["first", "2"]},
        {"metrics": {"loss": 0.5, "images": 10**20}, "step": 1},
        {"metrics": {"val/accuracy": "nan", "best": "-inf"}, "step": 2.5},
        {"metrics": {"flag": 1}},
    ]


def test_numbers_of_other_libraries() -> None:
    program = """
import numpy
log_metrics(step=numpy.int64(3), loss=numpy.float32(0.5), count=numpy.int64(7), one=numpy.array([1.5]).mean())
"""
    assert run(program) == ""
    assert lines() == [{"metrics": {"loss": 0.5, "count": 7.0, "one": 1.5}, "step": 3.0}]


def test_what_is_no_number_is_a_warning_and_no_end(wording: Wording) -> None:
    program = "for _ in range(3): log_metrics(loss='low', accuracy=1)"
    wording(run(program))
    assert lines() == [{"metrics": {"accuracy": 1}}] * 3


BAD: Final = """
class Tensor:
    def __float__(self): raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")
    def __str__(self): raise KeyError("no text")
    def __repr__(self): return "Tensor"
endless = []; endless.append(endless)
"""


@pytest.mark.parametrize(
    ("call", "warning"),
    [
        ("log_metrics(loss=Tensor())", "the value of metric 'loss' is no number: Tensor"),
        ("log_metrics(loss=10**400)", "the value of metric 'loss' is no number: 1000000000"),
        ("log_metrics([1, 2])", "log_metrics recorded nothing: TypeError: "),
        ("log_metrics(1, 2, 3, 4)", "log_metrics recorded nothing: TypeError: log_metrics() takes "),
        ("log_params(a=endless)", "log_params recorded nothing: RecursionError: maximum recursion depth"),
        ("log_params(a=Tensor())", "log_params recorded nothing: KeyError: 'no text'"),
        ("log_params(a=10**5000)", "log_params recorded nothing: ValueError: Exceeds the limit "),
        ("log_tags(Tensor())", "log_tags recorded nothing: KeyError: 'no text'"),
        ("log_artifact(Tensor())", "log_artifact recorded nothing: KeyError: 'no text'"),
        ("log_model(None)", "None cannot be kept: [Errno 2] No such file or directory: "),
    ],
)
def test_no_call_ends_a_training(call: str, warning: str) -> None:
    printed = run(f"{BAD}\n{call}\nlog_metrics(step=1, a=2)")
    assert printed.startswith(f"hpcdist_tracking: warning: {warning}"), printed
    assert lines()[-1] == {"metrics": {"a": 2}, "step": 1}


def test_a_large_integer_among_params_keeps_its_digits() -> None:
    assert run("log_params(seed=2**100 + 1, small=-(2**63), large=2**64 - 1)") == ""
    found = {"seed": "1267650600228229401496703205377", "small": -(2**63), "large": 2**64 - 1}
    assert lines() == [{"params": found}]


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "1", "HPCDIST_RANK": "0"},  # torchrun, which hpcdist started once a node
        {"HOROVOD_RANK": "1"},
        {"HPCDIST_RANK": "1", "SLURM_PROCID": "0"},
        {"OMPI_COMM_WORLD_RANK": "1"},
    ],
)
def test_rank_0_records_unless_all_shall(variables: dict[str, str]) -> None:
    program = "log_metrics(loss=1); log_params(a=1); log_tags('a'); log_metrics(loss=2, all_ranks=True)"
    assert run(program, **variables) == ""
    assert lines("rank-1.*") == [{"metrics": {"loss": 2}}]
    assert lines() == []


def test_a_fork_has_a_file_of_its_own() -> None:
    run("log_metrics(a=1)\nif not os.fork(): log_metrics(b=2); os._exit(0)\nos.wait(); log_metrics(a=3)")
    assert len([*Path("tracking").iterdir()]) == 2
    assert sorted(lines(), key=str) == [{"metrics": {"a": 1}}, {"metrics": {"a": 3}}, {"metrics": {"b": 2}}]


def test_a_kill_loses_at_most_the_last_line() -> None:
    program = f"{HEAD}n = 0\nwhile True: log_metrics(step=n, n=n); n += 1; print(n, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if line == "2000\n":
                process.send_signal(signal.SIGKILL)
        process.wait(60)
    [file] = Path("tracking").iterdir()
    whole = file.read_text().rpartition("\n")[0].splitlines()
    assert [json.loads(line)["step"] for line in whole] == [*range(len(whole))]
    assert len(whole) >= 2000


def test_a_full_disk_is_one_warning_and_costs_the_lines_that_did_not_fit() -> None:
    program = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log_metrics(step=0, loss=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
for step in range(1, 10): log_metrics(step=step, loss=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log_metrics(step=10, loss=2)
"""
    warned = run(program).splitlines()
    assert warned == [
        "hpcdist_tracking: warning: the disk is full; metrics are lost",
        "hpcdist_tracking: warning: metrics are lost: [Errno 27] File too large",
    ]
    [file] = Path("tracking").iterdir()
    first, torn, last = file.read_text().splitlines()
    assert (json.loads(first)["step"], json.loads(last)["step"]) == (0, 10)
    with pytest.raises(ValueError, match=r"."):
        json.loads(torn)


def test_a_folder_that_cannot_be_written_is_a_warning() -> None:
    Path("tracking").write_text("")
    assert run("for _ in range(3): log_metrics(a=1)").splitlines() == [
        "hpcdist_tracking: warning: metrics are lost: [Errno 17] File exists: 'tracking'"
    ]


def test_a_closed_stderr_ends_nothing() -> None:
    assert run("import sys; sys.stderr.close(); log_metrics(a='x', b=1)") == ""
    assert lines() == [{"metrics": {"b": 1}}]


def test_outside_a_job_it_writes_beside_the_program() -> None:
    run(
        "log_metrics(a=1); open('m', 'w').write('x'); log_model('m')", HPCDIST_TRACKING="", HPCDIST_OUTPUTS=""
    )
    there = sorted(str(path) for path in Path("hpcdist-tracking").rglob("*") if path.is_file())
    assert there[0] == "hpcdist-tracking/outputs/m"
    assert [path.split(".")[0] for path in there[1:]] == ["hpcdist-tracking/rank-0"]


def test_a_rendered_script_has_no_run_and_records_nothing() -> None:
    said = [
        run("log_metrics(a=1); log_metrics(a=2); log_artifact('m')", HPCDIST_TRACKING="", HPCDIST_RANK=rank)
        for rank in "01"
    ]
    text = "hpcdist_tracking: warning: nothing is recorded: this job was not started by `hpcdist submit`\n"
    assert said == [text, ""]
    assert [*Path().rglob("*")] == []


def test_models_and_artifacts_are_kept_with_size_and_hash() -> None:
    program = """
os.makedirs("outputs/deep"); os.makedirs("save/sub")
open("outputs/deep/there.bin", "w").write("there")
open("model.pt", "w").write("weights"); open("save/a", "w").write("A"); open("save/sub/b", "w").write("BB")
log_artifact("outputs/deep/there.bin")
log_model("model.pt", accuracy=0.9, note="x")
log_artifact("save", "final/save")
open("model.pt", "w").write("better")
log_model("model.pt", accuracy=0.95)
log_artifact("save", "final/save")
"""
    assert run(program).startswith("hpcdist_tracking: warning: the value of metric 'note' is no number")

    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    folder = {
        "kind": "artifact",
        "path": "final/save",
        "bytes": 3,
        "sha256": sha(f"{sha('A')}  a\n{sha('BB')}  sub/b\n"),
    }

    def model(text: str, accuracy: float) -> dict[str, Any]:
        kept = {"kind": "model", "path": "model.pt", "sha256": sha(text), "bytes": len(text)}
        return {**kept, "metrics": {"accuracy": accuracy}}

    assert [line["artifact"] for line in lines()] == [
        {"kind": "artifact", "path": "deep/there.bin", "sha256": sha("there"), "bytes": 5},
        model("weights", 0.9),
        folder,
        model("better", 0.95),
        folder,
    ]
    kept = {str(path.relative_to("outputs")) for path in Path("outputs").rglob("*") if path.is_file()}
    assert kept == {"deep/there.bin", "model.pt", "final/save/a", "final/save/sub/b"}
    assert Path("outputs/model.pt").read_text() == "better"


@pytest.mark.parametrize(
    "call",
    [
        "log_model('none.pt')",
        "log_artifact('a', '../up')",
        "log_artifact('a', '/tmp/up')",
        "log_artifact('.')",
        "log_artifact('outputs', 'x')",
    ],
)
def test_what_cannot_be_kept_is_a_warning(folder: Path, call: str, wording: Wording) -> None:
    (folder / "a").write_text("x")
    wording(run(call).replace(str(folder), "FOLDER"))
    assert lines() == []


@pytest.mark.parametrize(("loss", "reason"), [(0.5, ""), (0.05, "0.05"), (20, "20")])
def test_a_search_ends_at_each_of_the_values_of_a_metric(loss: float, reason: str) -> None:
    limits = json.dumps({"loss": [[-1, 0.1], [1, 9]]})
    run(f"log_metrics(loss={loss})", HPCDIST_STOP_AT=limits, HPCDIST_RUN_DIR=".")
    said = Path("stop").read_text() if Path("stop").exists() else ""
    assert said == (f"as a trial has reached loss {reason}\n" if reason else "")
