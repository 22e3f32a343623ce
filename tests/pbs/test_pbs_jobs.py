"""submit, status, logs, cancel and wait through real processes, and what the PBS of these tests refuses."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.slurm.process import until

from .conftest import FAKES, Completed, Person, machine

HERE = os.uname().nodename
UNTIL_GO = "while [[ ! -e go ]]; do sleep 0.1; done"
"""A command that ends once its test has made this file."""


def record(person: Person, run: str) -> dict[str, object]:
    (found,) = person.json("status", run)
    return {"job": found["job_id"], "state": found["state"], "exit_code": found["exit_code"]}


def queued(person: Person) -> list[str]:
    done = person.run("qselect", "-u", getpass.getuser())
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def await_state(person: Person, run: str, state: str) -> None:
    for _ in range(100):
        if person.json("status", run)[0]["state"] == state:
            return
        time.sleep(0.1)
    pytest.fail(f"{run} is {person.json('status', run)}, not {state}")


def await_line(person: Person, run: str, text: str) -> None:
    for _ in range(100):
        if text in person.hpcdist("logs", run).stdout:
            return
        time.sleep(0.1)
    pytest.fail(f"{run} wrote no {text!r}: {person.hpcdist('logs', run)}")


def output(done: Completed) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_from_its_submission_to_its_end(person: Person) -> None:
    command = 'cat "$HPCDIST_HOSTFILE"; pwd; echo "$OMP_NUM_THREADS ${PBS_O_WORKDIR##*/} $GREETING"'
    file = person.write("hello", command, workers=3)
    done = person.hpcdist("submit", file, "--wait", GREETING="it's me, really")
    assert done.returncode == 0, done.stderr
    log = output(person.hpcdist("logs", "hello-1"))
    assert log.splitlines() == [
        f"hpcdist: hello: 3 tasks by the command, 3 nodes: {HERE} other1 other2 (job 1000.fakepbs)",
        f"{HERE} slots=1",
        "other1 slots=1",
        "other2 slots=1",
        str(person.directory),
        "1 work it's me, really",
    ]
    assert record(person, "hello-1") == {"job": "1000.fakepbs", "state": "completed", "exit_code": 0}


def test_a_snapshot_is_where_the_job_starts(person: Person) -> None:
    file = person.write("hello", "echo at $PWD, ${PBS_O_WORKDIR}", code="snapshot")
    assert person.hpcdist("submit", file, "--wait").returncode == 0
    folder = person.directory / "runs" / "hello-1" / "code"
    assert f"at {folder}, {folder}\n" in output(person.hpcdist("logs", "hello-1"))


def test_a_failure_has_the_code_of_the_program(person: Person) -> None:
    done = person.hpcdist("submit", person.write("bad", "exit 7"), "--wait")
    assert done.returncode == 7
    assert record(person, "bad-1") == {"job": "1000.fakepbs", "state": "failed", "exit_code": 7}


def test_a_job_is_cancelled_while_it_runs(person: Person) -> None:
    output(person.hpcdist("submit", person.write("long", "echo begun; sleep 100")))
    await_state(person, "long-1", "running")
    await_line(person, "long-1", "begun")
    output(person.hpcdist("cancel", "long-1"))
    assert person.hpcdist("wait", "long-1").returncode != 0
    # qdel signals all processes of the job: mpirun may end by a code of its own before the task has told its.
    assert record(person, "long-1") == {"job": "1000.fakepbs", "state": "cancelled", "exit_code": 143}


SAVES = """\
import os, signal, sys, time
def save(*_):
    time.sleep(0.3)  # Open MPI 4.1 kills ranks a second after TERM
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(f"begun.{os.environ['HPCDIST_RANK']}", "w").close()
time.sleep(60)
"""


@pytest.mark.extended
@pytest.mark.parametrize("by", ["submitted", "rendered"])
def test_ranks_of_mpirun_save_after_qdel(person: Person, by: str) -> None:
    """PBS signals all processes of the job; at a second TERM mpirun would end without its ranks."""
    (person.directory / "program.py").write_text(SAVES)
    file = person.write("saves", f"{sys.executable} program.py", 1)
    data = yaml.safe_load(file.read_text())
    data["environment"]["resources"] = {"cpu": {"requests": 2}}
    data["batch"] |= {"launcher": "mpirun", "nodes": 1}
    del data["backend"]
    file.write_text(yaml.safe_dump(data))
    if by == "submitted":
        output(person.hpcdist("submit", file))
    else:
        (person.directory / "job.sh").write_text(output(person.hpcdist("render", file)))
        assert person.run("qsub", "-j", "oe", "-o", "log", "job.sh").returncode == 0
    log = person.directory / ("runs/saves-1/logs/job.out" if by == "submitted" else "log")
    until(lambda: len([*person.directory.glob("begun.*")]) == 2, "both ranks", 30)
    assert person.run("qdel", "1000.fakepbs").returncode == 0
    until(lambda: log.exists() and log.read_text().count("saved") == 2, "both ranks to save", 20)


def test_a_job_that_can_never_run_says_so_and_is_cancelled(person: Person) -> None:
    output(person.hpcdist("submit", person.write("big", "true", workers=9)))
    for _ in range(50):
        (found,) = person.json("status", "big-1")
        if found["reason"]:
            break
        time.sleep(0.1)
    assert (found["state"], found["reason"]) == (
        "pending",
        "Can Never Run: Insufficient amount of resource: ncpus",
    )
    output(person.hpcdist("cancel", "big-1"))
    await_state(person, "big-1", "cancelled")
    assert person.json("status", "big-1")[0]["reason"] == (
        "it was deleted before it began (Can Never Run: Insufficient amount of resource: ncpus)"
    )


def test_the_walltime_ends_a_job(person: Person) -> None:
    done = person.hpcdist("submit", person.write("slow", "sleep 100", walltime="1s"), "--wait")
    assert done.returncode != 0
    assert record(person, "slow-1")["state"] == "timeout"


def test_an_array(person: Person) -> None:
    file = person.write(
        "sweep", "echo element $PBS_ARRAY_INDEX; exit $((PBS_ARRAY_INDEX / 3))", array="0-3%2"
    )
    done = person.hpcdist("submit", file, "--wait")
    assert done.returncode == 1, done.stderr
    assert record(person, "sweep-1") == {"job": "1000[].fakepbs", "state": "failed", "exit_code": 1}
    logs = person.directory / "runs" / "sweep-1" / "logs"
    assert [re.findall(r"element \d", file.read_text()) for file in sorted(logs.iterdir())] == [
        [f"element {number}"] for number in range(4)
    ]
    outputs = person.directory / "runs" / "sweep-1" / "outputs"
    assert sorted(path.name for path in outputs.iterdir()) == ["0", "1", "2", "3"]


@pytest.mark.extended
@pytest.mark.parametrize("pack", ["false", "true"])
@pytest.mark.parametrize("values", [[3], [0, 3, 0]])
def test_trials_of_a_search(person: Person, values: list[int], pack: str) -> None:
    """PBS has no arrays of one element."""
    file = person.write("tune", "echo trial $HPCDIST_TRIAL is {{ n }}; exit {{ n }}")
    own = {"hptuning.matrix.n.values": values, "batch.pack": pack, "backend": "null", "framework": "null"}
    settings = [word for name, value in own.items() for word in ("--set", f"{name}={value}")]
    done = person.hpcdist("submit", file, "--wait", *settings)
    assert done.returncode == 3, done.stderr
    logs = (person.directory / "runs" / "tune-1" / "logs").glob("job*")
    found = [re.findall(r"trial \d is \d", file.read_text()) for file in sorted(logs)]
    assert [lines for lines in found if lines] == [  # of a job of workers there is none
        [f"trial {number} is {value}"] for number, value in enumerate(values, 1)
    ]
    shown = json.loads(output(person.hpcdist("sweep", "status", "tune-1", "--json")))
    assert [(trial["params"], trial["exit_code"]) for trial in shown["trials"]] == [
        ({"n": value}, value) for value in values
    ]


@pytest.mark.extended
def test_an_array_ends_with_the_code_of_its_first_failed_element(person: Person) -> None:
    """PBS gives the array the code of the element that ended last, 0 here."""
    file = person.write("sweep", "sleep $PBS_ARRAY_INDEX; exit $((7 * (PBS_ARRAY_INDEX == 0)))", array="0-1")
    done = person.hpcdist("submit", file, "--wait")
    assert done.returncode == 7, done.stderr
    assert record(person, "sweep-1") == {"job": "1000[].fakepbs", "state": "failed", "exit_code": 7}


@pytest.mark.extended
def test_an_array_of_which_one_element_was_deleted_did_not_end_well(person: Person) -> None:
    output(person.hpcdist("submit", person.write("sweep", UNTIL_GO, array="0-1")))
    directory = person.directory / "runs" / "sweep-1"
    until(lambda: len(list(directory.glob("jobs/*"))) == 2, "both elements to begin")
    assert person.run("qdel", "1000[1].fakepbs").returncode == 0
    ended = ("qstat", "-x", "-f", "-F", "dsv", "1000[1].fakepbs")
    until(lambda: "Exit_status" in person.run(*ended).stdout, "the element to end, before it can by itself")
    (person.directory / "go").touch()
    assert person.hpcdist("wait", "sweep-1").returncode == 143
    assert record(person, "sweep-1") == {"job": "1000[].fakepbs", "state": "cancelled", "exit_code": 143}


def test_an_array_of_one_element(person: Person) -> None:
    done = person.hpcdist("submit", person.write("one", "echo element $PBS_ARRAY_INDEX", array="5"), "--wait")
    assert done.returncode == 0, done.stderr
    assert "element 5\n" in output(person.hpcdist("logs", "one-1"))


@pytest.mark.extended
def test_a_job_waits_for_another(person: Person) -> None:
    output(person.hpcdist("submit", person.write("first", "sleep 1; exit 1")))
    output(person.hpcdist("submit", person.write("never", "true", dependency="1000")))
    output(person.hpcdist("submit", person.write("then", "true", dependency="afternotok:1000")))
    person.hpcdist("wait", "first-1", "never-1", "then-1")
    assert [record(person, f"{name}-1")["state"] for name in ("first", "never", "then")] == [
        "failed",
        "cancelled",
        "completed",
    ]


def test_a_program_whose_name_ends_within_a_character_disturbs_no_job(person: Person, tmp_path: Path) -> None:
    """The kernel keeps 15 bytes of a name, and PBS looks at all processes of the machine."""
    other = shutil.copy("/bin/sleep", tmp_path / ("é" * 8))
    with subprocess.Popen([other, "600"]) as process:
        done = person.hpcdist("submit", person.write("bad", "exit 7"), "--wait")
        process.kill()
    assert done.returncode == 7
    assert record(person, "bad-1") == {"job": "1000.fakepbs", "state": "failed", "exit_code": 7}


@pytest.mark.parametrize("history", [True, False])
def test_a_lost_answer_is_no_second_job(person: Person, tmp_path: Path, history: bool) -> None:  # noqa: FBT001
    hosts = {HERE: {"ncpus": 8}}
    machine(tmp_path / "spool", hosts, history=history)
    broken = tmp_path / "broken"
    broken.mkdir()
    qsub = broken / "qsub"
    real = person.environment["PATH"].partition(":")[0]
    qsub.write_text(f'#!/bin/bash\n"{real}/qsub" "$@" >/dev/null\necho "qsub: End of File" >&2\nexit 1\n')
    qsub.chmod(0o755)
    path = f"{broken}:{person.environment['PATH']}"
    done = person.hpcdist("submit", person.write("lost", "sleep 3"), PATH=path)
    assert done.returncode == 0, done.stderr
    assert record(person, "lost-1")["job"] == "1000.fakepbs"
    assert len(list((tmp_path / "spool" / "jobs").glob("*.json"))) == 1


def test_an_array_is_found_by_what_its_elements_wrote(person: Person, tmp_path: Path) -> None:
    """As when the answer was lost, and nobody looked before the job was over and forgotten."""
    machine(tmp_path / "spool", {HERE: {"ncpus": 8}}, history=False)
    output(person.hpcdist("submit", person.write("sweep", "true", array="0-1")))
    directory = person.directory / "runs" / "sweep-1"
    until(lambda: len(list(directory.glob("jobs/*"))) == 2, "both elements to begin")
    file = directory / "record.json"
    lost = json.loads(file.read_text()) | {"phase": "submitting", "job_id": None, "ended": None}
    file.write_text(json.dumps(lost))
    assert record(person, "sweep-1")["job"] == "1000[].fakepbs"


def test_a_run_is_found_by_the_number_of_its_job(person: Person) -> None:
    output(person.hpcdist("submit", person.write("hello", "true"), "--wait"))
    assert [person.json("status", name)[0]["name"] for name in ("1000", "1000.fakepbs")] == ["hello-1"] * 2


def test_without_history_the_end_is_known_from_the_run_directory(person: Person, tmp_path: Path) -> None:
    machine(tmp_path / "spool", {HERE: {"ncpus": 8}}, history=False)
    done = person.hpcdist("submit", person.write("bad", "exit 7"), "--wait")
    assert done.returncode == 7
    assert record(person, "bad-1") == {"job": "1000.fakepbs", "state": "failed", "exit_code": 7}


@pytest.mark.extended
def test_without_history_an_array_ends_as_its_first_failed_element(person: Person, tmp_path: Path) -> None:
    machine(tmp_path / "spool", {HERE: {"ncpus": 8}}, history=False)
    done = person.hpcdist(
        "submit", person.write("sweep", "exit $((PBS_ARRAY_INDEX * 3))", array="0-2"), "--wait"
    )
    assert done.returncode == 3, done.stderr
    assert record(person, "sweep-1") == {"job": "1000[].fakepbs", "state": "failed", "exit_code": 3}


def test_what_the_site_demands_is_told(person: Person, tmp_path: Path) -> None:
    machine(tmp_path / "spool", {HERE: {"ncpus": 8}}, demands=["filesystems"], resources=["filesystems"])
    done = person.hpcdist("submit", person.write("bare", "true"))
    assert done.returncode == 5
    assert "Job rejected: you must say -l filesystems=; write `batch: {directives: ['-l files" in done.stderr
    file = person.write("good", "true", directives=["-l filesystems=home"])
    assert person.hpcdist("submit", file, "--wait").returncode == 0


def test_on_a_host_without_qsub_scripts_are_rendered_and_nothing_is_submitted(person: Person) -> None:
    file = person.write("hello", "true")
    path = f"{person.environment['PATH'].split(':')[1]}:/nonexistent"
    done = person.hpcdist("submit", file, PATH=path)
    assert done.returncode == 5
    assert "there is no `qsub` on this machine; submit from a login node of the site" in done.stderr
    assert output(person.hpcdist("render", file, PATH=path)).startswith("#!/bin/bash\n#PBS -S /bin/bash\n")


def test_torque_is_refused_by_name(person: Person, tmp_path: Path) -> None:
    output(person.hpcdist("submit", person.write("hello", UNTIL_GO)))
    torque = tmp_path / "torque"
    torque.mkdir()
    qstat = torque / "qstat"
    qstat.write_text("#!/bin/bash\necho \"qstat: invalid option -- 'F'\" >&2\nexit 2\n")
    qstat.chmod(0o755)
    done = person.hpcdist("status", "hello-1", PATH=f"{torque}:{person.environment['PATH']}")
    (person.directory / "go").touch()
    said = (
        "this is not the qstat of PBS Pro or OpenPBS, and hpcdist does not know Torque: qstat: invalid option"
    )
    assert said in done.stdout


def run_by_hand(person: Person, script: Path, nodes: str, **variables: str) -> Completed:
    (person.directory / "nodefile").write_text(nodes)
    names = {"PBS_JOBID": "5.fakepbs", "PBS_O_WORKDIR": str(person.directory)}
    names |= {"PBS_NODEFILE": str(person.directory / "nodefile"), **variables}
    return person.run("bash", script, **names)


def rendered(person: Person, file: Path, *options: str) -> Path:
    script = person.directory / "job.sh"
    script.write_text(output(person.hpcdist("render", file, *options)))
    return script


SUBMITTED = """\
import sys
from pathlib import Path
from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from tests.script.jobs import write
write(Path(sys.argv[2]), plan_experiment(ExperimentOptions(sys.argv[1])).plan)
"""


def written(person: Person, file: Path) -> Path:
    """Write the files of a run, as `submit` does; return its script."""
    run = person.directory / "run"
    tests = str(Path(__file__).parents[2])
    assert output(person.run(sys.executable, "-c", SUBMITTED, file, run, PYTHONPATH=tests)) == ""
    return run / "job.sh"


def test_a_job_that_pbs_runs_again_counts_its_restarts(person: Person) -> None:
    script = written(person, person.write("again", "true", requeue=True))
    for _ in range(2):
        assert run_by_hand(person, script, f"{HERE}\n").returncode == 0
    events = (person.directory / "run" / "events").read_text().split("\n")
    assert [re.sub(r" \d+ ", " ", event, count=1) for event in events if event.startswith("started")] == [
        "started 5.fakepbs 0",
        "started 5.fakepbs 1",
    ]


def test_nodes_in_another_order_than_the_plan_has_them_are_refused(person: Person) -> None:
    file = person.write("uneven", "true", workers=5)
    sites = person.directory / "sites"
    sites.mkdir()
    (sites / "two.yaml").write_text(
        "{name: two, description: a test, scheduler: pbs, launcher: mpirun, node_types: {n: {cpus: 3}},\n"
        "partitions: {workq: {nodes: {n: 9}}}}\n"
    )
    script = rendered(person, file, "--site=two", f"--site-path={sites}")
    assert "#PBS -l select=1:ncpus=3:mpiprocs=3:ompthreads=1+1:ncpus=2:mpiprocs=2" in script.read_text()
    assert run_by_hand(person, script, "a\na\na\nb\nb\n").returncode == 0
    done = run_by_hand(person, script, "b\nb\na\na\na\n")
    assert (done.returncode, done.stderr) == (
        86,
        "hpcdist: PBS has not 3 tasks on b, where the plan has them\n",
    )


def test_outside_pbs_the_script_says_what_it_is_for(person: Person) -> None:
    done = person.run("bash", rendered(person, person.write("hello", "true")))
    assert done.returncode != 0
    assert "submit this script by qsub" in done.stderr


@pytest.mark.parametrize(
    ("tmrsh", "why"),
    [
        (True, "by PBS's pbs_tmrsh: it was lost"),
        (False, "by ssh, by which mpirun starts tasks there; let `ssh NODE true` work without a password"),
    ],
)
def test_a_node_on_which_nothing_can_be_started_is_named(person: Person, *, tmrsh: bool, why: str) -> None:
    programs = person.directory / "programs"
    programs.mkdir()
    stubs = {"mpirun": "exit 205", "ssh": '[[ " $* " != *" c "* ]]'}
    for name, line in stubs.items():
        (programs / name).write_text(f"#!/bin/bash\n{line}\n")
        (programs / name).chmod(0o755)
    file = person.directory / "spread.yml"
    keys = {"framework": "mpi", "environment": {"replicas": {"n_workers": 2}}, "run": {"cmd": "true"}}
    file.write_text(yaml.safe_dump({"version": 1, "name": "spread", **keys}))
    script = written(person, file)
    paths = [str(programs), *([str(FAKES)] if tmrsh else []), "/usr/bin:/bin"]
    done = run_by_hand(person, script, "a\nb\nc\n", PATH=":".join(paths))
    assert done.returncode == 205
    assert f"cannot reach c {why}" in done.stderr


COUNT = """\
step=0
[[ ! -e $HPCDIST_CHECKPOINTS/step ]] || step=$(<$HPCDIST_CHECKPOINTS/step)
echo attempt $HPCDIST_ATTEMPT from $step
for ((; step < 100; step++)); do
  sleep 0.2
  echo $((step + 1)) >$HPCDIST_CHECKPOINTS/new && mv $HPCDIST_CHECKPOINTS/new $HPCDIST_CHECKPOINTS/step
done
"""
"""A training of twenty seconds that goes on from its checkpoint."""


@pytest.mark.extended
def test_a_training_goes_on_in_the_jobs_behind_it(person: Person) -> None:
    restart = json.dumps({"max": 6, "notice": "8s"})
    file = person.write("chain", COUNT, walltime="20s")
    output(person.hpcdist("submit", file, "--set", f"environment.restart={restart}"))
    assert person.hpcdist("wait", "chain-1").returncode == 0
    log = output(person.hpcdist("logs", "chain-1"))
    found = re.findall(r"attempt (\d) from (\d+)", log)
    attempts, steps = [int(attempt) for attempt, _ in found], [int(step) for _, step in found]
    assert 1 < len(found) < 7  # two at rest, more on a busy machine
    assert attempts == list(range(len(found)))
    assert steps == sorted({0, *steps})  # each further than the one before
    assert record(person, "chain-1") == {"job": "1000.fakepbs", "state": "completed", "exit_code": 0}
    until(lambda: not queued(person), "the other followers to be deleted")


@pytest.mark.extended
def test_no_follower_runs_that_is_submitted_while_the_run_is_cancelled(person: Person) -> None:
    """As by a qsub that takes long: it is called before, and answers after."""
    slow = person.directory / "qsub"
    mark = person.directory / "runs" / "chain-1" / "cancelled"
    waits = f"while [[ -e first && ! -e {mark} ]] && ((SECONDS < 120)); do sleep 0.1; done"
    slow.write_text(f'#!/bin/bash\n{waits}\ntouch first\nexec {FAKES}/qsub "$@"\n')
    slow.chmod(0o755)
    file = person.write("chain", "echo program >>programs; sleep 60", walltime="2m")
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "hpcdist",
        "submit",
        file,
        "--set",
        "environment.restart={max: 3, notice: 10s}",
    ]
    path = f"{person.directory}:{person.environment['PATH']}"
    with subprocess.Popen(
        words,
        cwd=person.directory,
        env={**person.environment, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as submit:
        until((person.directory / "programs").exists, "the first job to run")
        cancelled = person.hpcdist("cancel", "chain-1")
        out, _ = submit.communicate(timeout=240)
    assert "chain-1 was cancelled when it had 2 of 4 jobs" in out
    until(lambda: not queued(person), "the follower to be deleted")
    assert (person.directory / "programs").read_text() == "program\n"
    assert record(person, "chain-1")["state"] == "cancelled", cancelled
