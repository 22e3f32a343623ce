"""Modules that stand in for the clients of Azure and Gradient, whose programs run as they stand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tracking.test_client import MODULES_FOLDER, environment, lines
from tests.wording import Wording


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(program: str, *paths: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program for which packages are installed at these paths, behind the modules of the job."""
    where = os.pathsep.join(map(str, [MODULES_FOLDER, *paths]))
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment(**{"PYTHONPATH": where, **variables}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def package(place: Path, modules: Mapping[str, str]) -> Path:
    """Install modules: the text of each, by its path."""
    for name, text in modules.items():
        file = place / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place


AZURE: Final = """
import io
from azureml.core import Run
from azureml.core.run import Run as Same, _OfflineRun

run = Run.get_context()
assert run is Same.get_context() and isinstance(run, (Run, _OfflineRun)) and run.id.startswith("OfflineRun")
run.log("loss", 0.5)
run.log("loss", 0.25, step=7, description="text")
run.log("best model", "resnet")
run.log_list("accuracies", [0.5, 0.75])
run.log_row("citrus", size=10, weight=1.5)
run.log_table("table", {"x": [1, 2], "y": [3.0, 4.0]})
run.parent.log("of_parent", 1)
with run.child_run("fold-1") as child:
    child.log("mse", 2)
run.tag("DeploymentCandidate")
run.set_tags({"by": "ci"})
run.add_properties({"build": "7"})
print(run.get_tags(), run.tags, run.get_properties())
run.flush()
run.complete()
"""


def test_a_program_of_azure_records_as_it_stands() -> None:
    done = run(AZURE, HPCDIST_JOB_ID="12")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "{'DeploymentCandidate': None, 'by': 'ci'} {'DeploymentCandidate': None, 'by': 'ci'} {'build': '7'}\n"
    )
    assert lines() == [
        {"metrics": {"loss": 0.5}},
        {"metrics": {"loss": 0.25}, "step": 7},
        {"params": {"best model": "resnet"}},
        {"metrics": {"accuracies": 0.5}},
        {"metrics": {"accuracies": 0.75}},
        {"metrics": {"citrus/size": 10, "citrus/weight": 1.5}},
        {"metrics": {"table/x": 1, "table/y": 3.0}},
        {"metrics": {"table/x": 2, "table/y": 4.0}},
        {"metrics": {"of_parent": 1}},
        {"metrics": {"fold-1/mse": 2}},
        {"tags": ["DeploymentCandidate"]},
        {"tags": ["by=ci"]},
        {"params": {"build": "7"}},
    ]


FILES: Final = """
import io, os
from azureml.core import Run
class Plot:
    def savefig(self, place):
        open(place, "w").write("plot")
run = Run.get_context()
open("model.pkl", "w").write("weights")
open("notes.txt", "w").write("notes")
run.upload_file(name="outputs/notes.txt", path_or_stream="notes.txt")
run.upload_file("outputs/notes.txt", "outputs/notes.txt")
run.upload_file("stream.bin", io.BytesIO(b"bytes"))
run.log_image("curve", plot=Plot())
run.log_image("picture", "notes.txt")
run.log_confusion_matrix("confusion", {"data": [[1, 0], [0, 1]]})
run.upload_file("../../outside", io.BytesIO(b"bytes"))
model = run.register_model("mnist", model_path="outputs/model.pkl", tags={"a": "b"})
print(model.name, model.version)
os.rename("model.pkl", "outputs/model.pkl")
run.register_model(model_name="mnist", model_path="outputs/model.pkl")
"""


def test_files_and_models_are_in_the_outputs_once(folder: Path) -> None:
    done = run(FILES)
    assert (done.returncode, done.stdout) == (0, "mnist 1\n")
    assert done.stderr == (
        "hpcdist_tracking: warning: outputs/model.pkl cannot be kept: "
        "[Errno 2] No such file or directory: 'outputs/model.pkl'\n"
    )
    recorded = [(line["artifact"]["kind"], line["artifact"]["path"]) for line in lines()]
    assert recorded == [
        ("artifact", "notes.txt"),
        ("artifact", "notes.txt"),
        ("artifact", "stream.bin"),
        ("artifact", "curve.png"),
        ("artifact", "picture.txt"),
        ("artifact", "confusion.json"),
        ("artifact", "outside"),
        ("model", "model.pkl"),
    ]
    there = {file.name for file in (folder / "outputs").iterdir()}
    assert there == {path for _, path in recorded}
    assert (folder / "outputs/confusion.json").read_text() == '{"data": [[1, 0], [0, 1]]}'


def test_other_ranks_of_azure_record_nothing(folder: Path) -> None:
    assert run(AZURE, RANK="1").returncode == 0
    assert run(FILES.partition("os.rename")[0], RANK="1").returncode == 0
    assert not (folder / "tracking").exists()
    assert not (folder / "outputs").exists()


NEEDED: Final = "itself: install it in the environment of the job"
GUARD: Final = "has no counterpart outside Azure; guard this call, or remove it"


@pytest.mark.parametrize(
    "program",
    [
        "from azureml.core import Run; Run.get_context().experiment",
        "from azureml.core import Run, Workspace",
        "from gradient_utils import get_mongo_conn_str",
        "import azureml.core.model",
        "import azureml.dataprep",
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(program: str, wording: Wording) -> None:
    wording(run(program).stderr.splitlines()[-1])


EXTENDED: Final = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)"
"""The first file of each of Azure's packages."""

WHO: Final = "from azureml.core import Run; print(Run.get_context().__module__)"


def test_azures_own_package_is_used_wherever_it_is(folder: Path) -> None:
    core = "class Run:\n    @staticmethod\n    def get_context():\n        return Run()\n"
    real = package(folder / "real", {"azureml/__init__": EXTENDED, "azureml/core/__init__": core})
    other = package(folder / "other", {"azureml/__init__": EXTENDED, "azureml/dataprep": "here = True"})
    assert run(WHO).stdout == "azureml\n"
    assert run(WHO, real).stdout == "azureml.core\n"
    assert run(WHO, other, real).stdout == "azureml.core\n"
    assert (
        run("import azureml.dataprep; print(azureml.dataprep.here); " + WHO, other).stdout
        == "True\nazureml\n"
    )


@pytest.mark.parametrize("first", ["", EXTENDED])
def test_other_parts_of_azure_are_there(folder: Path, first: str) -> None:
    """They may be a namespace, without a first file."""
    place = package(folder / "other", {"azureml/dataprep": "here = True"})
    if first:
        package(place, {"azureml/__init__": first})
    program = "import azureml.core.run, azureml.dataprep; print(azureml.core.Run, azureml.dataprep.here)"
    for order in (program, "import azureml.dataprep; " + program, WHO + "; " + program):
        done = run(order, place)
        assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "<class 'azureml.Run'> True")


FINDER: Final = """
import importlib.util, sys
class Editable:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "azureml":
            return importlib.util.spec_from_file_location(name, "PLACE/azureml/__init__.py")
sys.meta_path.append(Editable)
"""


@pytest.mark.parametrize("name", ["azureml.core", "gradient_utils.metrics", "polyaxon_client.tracking"])
def test_a_second_copy_is_not_the_real_one(name: str, folder: Path) -> None:
    """A job has its own beside that of an installed hpcdist; each stepped aside for the other for ever."""
    shutil.copytree(MODULES_FOLDER, folder / "copy")
    program = f"import {name} as module; print(module.__file__)"
    done = run(program, folder / "copy", POLYAXON_HOST="x")
    assert (done.stdout, done.stderr) == (f"{MODULES_FOLDER / name.partition('.')[0]}.py\n", "")


def test_an_editable_installation_is_used(folder: Path) -> None:
    core = "class Run:\n    @staticmethod\n    def get_context():\n        return Run()\n"
    package(folder / "real", {"azureml/__init__": "", "azureml/core/__init__": core})
    assert run(FINDER.replace("PLACE", str(folder / "real")) + WHO).stdout == "azureml.core\n"


def test_a_library_that_only_looks_for_azure_records_nothing_by_it() -> None:
    """Transformers adds a callback for each tracker that it finds, in programs that never heard of it."""
    look = "import importlib.util; print(importlib.util.find_spec('azureml.core') is not None)"
    assert run(look).stdout == "False\n"
    assert run(f"import azureml.core; {look}").stdout == "True\n"


GRADIENT: Final = """
from gradient_utils import MetricsLogger as Same, get_tf_config, job_name, task_index
from gradient_utils.metrics import MetricsLogger, add_metrics, init

assert Same is MetricsLogger
with init(sync_tensorboard=True):
    add_metrics({"loss": 0.25, "accuracy": 0.99})
add_metrics({"loss": 0.125}, step=2)
logger = MetricsLogger(step=1)
logger.add_gauge("gauge")
logger.add_counter("images")
logger.add_summary("seconds")
logger["gauge"].set(3)
logger["gauge"].inc()
logger["gauge"].dec(0.5)
logger["images"].inc(10)
logger["seconds"].observe(2)
logger["seconds"].observe(3)
logger.push_metrics()
logger.set_step(2)
logger["gauge"] = 5
logger.push_metrics()
get_tf_config()
print(job_name(), task_index())
"""


def test_a_program_of_gradient_records_as_it_stands() -> None:
    done = run(GRADIENT, HPCDIST_ROLE="worker", HPCDIST_INDEX="3")
    assert (done.stdout, done.stderr) == ("worker 3\n", "")

    def pushed(gauge: float, step: int) -> list[dict[str, Any]]:
        values: list[dict[str, float]] = [
            {"gauge": gauge}, {"images": 10}, {"seconds_sum": 5, "seconds_count": 2}
        ]  # fmt: skip
        return [{"metrics": value, "step": step} for value in values]

    assert lines() == [
        {"metrics": {"loss": 0.25, "accuracy": 0.99}},
        {"metrics": {"loss": 0.125}, "step": 2},
        *pushed(3.5, 1),
        *pushed(5, 2),
    ]


def test_gradients_own_package_and_a_users_module_of_its_name_are_used(folder: Path) -> None:
    program = "from gradient_utils import metrics; print(metrics.own)"
    real = package(folder / "real", {"gradient_utils/__init__": "", "gradient_utils/metrics": "own = 1"})
    assert run(program, real).stdout == "1\n"
    users = package(folder / "users", {"gradient_utils": "class metrics: own = 2"})
    assert run(program, users).stdout == "2\n"
    folders = package(folder / "folders", {"gradient_utils/other": "own = 3"})
    assert run("from gradient_utils.other import own; print(own)", folders).stdout == "3\n"
