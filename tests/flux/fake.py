"""A flux for tests: what it takes, refuses and prints is that of flux-core 0.88, its hosts are namespaces.

An instance is a folder: ``$FLUX_URI``, else ``$FAKE_FLUX``. In it are ``hosts`` and ``jobs/NUMBER.json``. A
job of ``flux batch`` is a process of its own that runs the script as the first program of a new instance; one
of ``flux run`` starts its tasks, each in a namespace with the name of its host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))

from hpcdist.schedulers.flux import f58, plain_id
from tests.flux.rfc36 import DirectiveError, directives

HERE = Path(os.environ.get("FLUX_URI", "") or os.environ["FAKE_FLUX"])
DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
GPUS = 4
CORES = 16
BATCH = 0.5
"""Seconds for which flux-shell holds the output of tasks back (its option output.batch-timeout)."""

Held = queue.Queue[tuple[float, str, IO[str]] | None]


def refuse(program: str, message: str, code: int = 1) -> NoReturn:
    sys.stderr.write(f"flux-{program}: ERROR: {message}\n")
    sys.exit(code)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def shown(number: int) -> str:
    """An id as Flux prints it: with the letter where the locale has it."""
    text = f58(number)
    return text if os.environ.get("LC_ALL") == "C" else "\u0192" + text[1:]


def number_of(text: str) -> int:
    plain = plain_id(text)
    if not plain:
        refuse("job", f"error parsing jobid: {text}")
    number = 0
    for digit in plain[1:]:
        number = number * 58 + DIGITS.index(digit)
    return number


def seconds(text: str) -> float:
    """Flux Standard Duration (RFC 23); a bare number is minutes for a time limit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not match:
        refuse("batch", "invalid Flux standard duration")
    return float(match[1]) * {"s": 1, "": 60, "m": 60, "h": 3600, "d": 86400}[match[2]]


class Job:
    """A record on the disk, one writer at a time."""

    def __init__(self, number: int, instance: Path = HERE) -> None:
        self.file = instance / "jobs" / f"{number}.json"
        self.number = number

    def read(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.file.read_text())
        return data

    def write(self, **changes: Any) -> None:
        data = (self.read() if self.file.exists() else {"id": self.number}) | changes
        part = self.file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(data))
        part.replace(self.file)


def new_job(name: str) -> Job:
    (HERE / "jobs").mkdir(exist_ok=True)
    job = Job(int((time.time() - 1767225600) * 1000) << 24)
    job.write(
        name=name,
        state="DEPEND",
        urgency=16,
        userid=os.getuid(),
        t_submit=time.time(),
        pids=[],
        dependencies=[],
        annotations={},
        exception={"occurred": False},
    )
    return job


def all_jobs(instance: Path = HERE) -> list[Job]:
    files = sorted((instance / "jobs").glob("*.json"), key=lambda file: -int(file.stem))
    return [Job(int(file.stem), instance) for file in files]


def hosts() -> list[str]:
    return (HERE / "hosts").read_text().split()


def parser(program: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"flux {program}", allow_abbrev=False)
    made.add_argument("-N", "--nodes", type=int)
    made.add_argument("-x", "--exclusive", action="store_true")
    made.add_argument("-t", "--time-limit")
    made.add_argument("-q", "--queue")
    made.add_argument("-B", "--bank")
    made.add_argument("--job-name")
    made.add_argument("--output")
    made.add_argument("--error")
    made.add_argument("-o", "--setopt", action="append", default=[])
    made.add_argument("-S", "--setattr", action="append", default=[])
    made.add_argument("--dependency", action="append", default=[])
    made.add_argument("--requires", action="append", default=[])
    made.add_argument("--env", action="append", default=[])
    made.add_argument("--env-remove", action="append", default=[])
    made.add_argument("--signal")
    made.add_argument("--cwd")
    made.add_argument("-l", "--label-io", action="store_true")
    return made


def batch(words: list[str]) -> None:
    made = parser("batch")
    made.add_argument("-n", "--nslots", type=int)
    made.add_argument("-c", "--cores-per-slot", type=int, default=1)
    made.add_argument("-g", "--gpus-per-slot", type=int, default=0)
    made.add_argument("script")
    file = Path(made.parse_args(words).script)
    text = file.read_text()
    try:
        found = directives(text)
    except DirectiveError as error:
        refuse("batch", f"{file}: {error}")
    for line, own in found.items():
        _, unknown = made.parse_known_args([*own, "script"])
        if unknown:
            sys.stderr.write(
                f"flux-batch: ERROR: argument parsing failed at {file} line {line}\n"
                "usage: flux batch [OPTIONS...] [SCRIPT] [ARGS...]\n"
                f"flux batch: error: unrecognized arguments: {unknown[0]}\n"
            )
            sys.exit(2)
    args = made.parse_args([*(word for own in found.values() for word in own), *words])
    check(args)
    if trouble := os.environ.get("FAKE_FLUX_TROUBLE"):
        refuse("batch", trouble)
    job = new_job(args.job_name or file.name)
    attributes = {"user": dict(item.removeprefix("user.").split("=", 1) for item in args.setattr)}
    jobspec = {"attributes": attributes | {"system": {"batch": {"script": text}}}}
    job.write(jobspec=jobspec, options=vars(args), cwd=str(Path.cwd()))
    subprocess.Popen(
        [sys.executable, __file__, "-shell", str(job.number)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if os.environ.get("FAKE_FLUX_SILENCE"):
        sys.exit(1)
    say(shown(job.number))


def check(args: argparse.Namespace) -> None:
    """Refuse what flux batch, or the instance that it asks, refuses."""
    if not args.nslots and args.nodes is None:
        refuse("batch", "Number of slots to allocate must be specified")
    slots = args.nslots if args.nslots is not None else args.nodes
    if args.nodes and slots < args.nodes:
        refuse("batch", "node count must not be greater than task count")
    if args.exclusive and not args.nodes:
        refuse("batch", "exclusive can only be set with a node count")
    if args.time_limit:
        seconds(args.time_limit)
    if args.queue:
        check_queue(args)
    for wait in args.dependency:
        scheme, _, job_id = wait.partition(":")
        if scheme not in ("after", "afterok", "afterany", "afternotok", "singleton"):
            refuse("batch", f'dependency scheme "{scheme}" not supported')
        known = {job.number: job.read() for job in all_jobs()}
        if job_id and number_of(job_id) not in known:
            refuse("batch", f"dependency: {scheme}: id {job_id}: job not found")
        if scheme == "afterok" and known[number_of(job_id)].get("result", "COMPLETED") != "COMPLETED":
            refuse("batch", f"dependency: afterok: job {shown(number_of(job_id))} failed or was canceled")


def check_queue(args: argparse.Namespace) -> None:
    """Refuse what is beyond a line of ``queues``: name, longest time, most nodes (``-`` for no limit)."""
    queues = dict(line.split(maxsplit=1) for line in (HERE / "queues").read_text().splitlines())
    if args.queue not in queues:
        refuse("batch", f"Invalid queue '{args.queue}' specified")
    longest, most = queues[args.queue].split()
    if args.time_limit and longest != "-" and seconds(args.time_limit) > seconds(longest):
        asked = f"requested duration ({args.time_limit})"
        refuse("batch", f"{asked} exceeds policy limit of {longest} for queue {args.queue}")
    if args.nodes and most != "-" and args.nodes > int(most):
        asked = f"requested nnodes ({args.nodes})"
        refuse("batch", f"{asked} exceeds policy limit of {most} for queue {args.queue}")


def shell(number: int) -> None:
    """Run a batch job to its end."""
    job = Job(number)
    options = job.read()["options"]
    nodes = options["nodes"] or 1
    if misfit := unsatisfiable(options):
        exception = {"occurred": True, "severity": 0, "type": "alloc", "note": misfit}
        job.write(state="INACTIVE", result="FAILED", returncode=1, success=False, exception=exception)
        return
    now = time.time()
    job.write(state="SCHED", priority=16, t_depend=now, t_priority=now, t_sched=now)
    while (HERE / "hold").exists():
        time.sleep(0.05)
        if job.read()["state"] == "INACTIVE":
            return
    instance = HERE / "instances" / str(number)
    (instance / "jobs").mkdir(parents=True)
    (instance / "hosts").write_text("\n".join(hosts()[:nodes]))
    script = instance / "script"
    script.write_text(job.read()["jobspec"]["attributes"]["system"]["batch"]["script"])
    output = options["output"].replace("{{id}}", shown(number))
    with (Path(job.read()["cwd"]) / output).open("wb") as out:
        process = subprocess.Popen(
            ["unshare", "--uts", "bash", "-c", 'echo "$0" >/proc/sys/kernel/hostname; exec bash "$1"',
             hosts()[0], script],
            cwd=job.read()["cwd"], env=environment(options, number, instance), stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    uri = f"ssh://{hosts()[0]}{instance}"
    job.write(state="RUN", nodelist=",".join(hosts()[:nodes]), pids=[process.pid], t_run=time.time(), uri=uri)
    limit = seconds(options["time_limit"]) if options["time_limit"] else None
    timers = []
    if limit:
        (instance / "expires").write_text(str(time.time() + limit))
        timers.append(threading.Timer(limit, expire, (job, instance)))
        if options["signal"]:
            name, _, left = options["signal"].partition("@")
            timers.append(threading.Timer(limit - float(left or 60), warn, (job, instance, name)))
    start(timers)
    code = process.wait()
    code = 128 - code if code < 0 else code
    for inner in all_jobs(instance):
        for pid in inner.read()["pids"]:
            kill(pid, signal.SIGKILL)
    ended = job.read().get("result") or ("FAILED" if code else "COMPLETED")
    job.write(state="INACTIVE", result=ended, returncode=code, waitstatus=code << 8, success=not code)


def unsatisfiable(options: dict[str, Any]) -> str:
    nodes = options["nodes"] or 1
    slots = (options["nslots"] or nodes) // nodes
    cores, gpus = slots * options["cores_per_slot"], slots * options["gpus_per_slot"]
    eligible = len(hosts()) if cores <= CORES and gpus <= GPUS else 0
    if nodes <= eligible:
        return ""
    each = f"{cores} cores{f' and {gpus} GPUs' if gpus else ''} each"
    return f"unsatisfiable request: need {nodes} node(s) with {each}, only {eligible} eligible"


def environment(options: dict[str, Any], number: int, instance: Path) -> dict[str, str]:
    found = dict(os.environ)
    if options["env_remove"]:
        found = {name: found[name] for name in [*options["env"], "FAKE_FLUX"] if name in found}
        found["PATH"] = os.environ["PATH"]
    if "gpu-affinity=off" not in options["setopt"]:
        gpus = options["gpus_per_slot"] * (options["nslots"] // (options["nodes"] or 1))
        found |= gpu_variables(gpus)
    return found | {"FLUX_URI": str(instance), "FLUX_ENCLOSING_ID": shown(number)}


def gpu_variables(gpus: int) -> dict[str, str]:
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus))) or "-1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def start(timers: list[threading.Timer]) -> None:
    for timer in timers:
        timer.daemon = True
        timer.start()


def warn(job: Job, instance: Path, name: str) -> None:
    """Signal the script and all jobs of its instance, as a broker does; those of other nodes end by that."""
    number = getattr(signal, f"SIG{name.removeprefix('SIG')}")
    (pid,) = job.read()["pids"]
    for inner in all_jobs(instance):
        if inner.read()["state"] == "RUN":
            signal_tasks(inner, number)
            if (job.read()["options"]["nodes"] or 1) > 1:
                signal_tasks(inner, signal.SIGKILL)
    os.kill(pid, number)


def signal_tasks(inner: Job, number: int) -> None:
    for task in inner.read()["pids"]:
        kill(task, number)


def expire(job: Job, instance: Path) -> None:
    """End a job at its time limit: the jobs of its instance may not run longer, and end a little before."""
    job.write(result="TIMEOUT")
    for inner in all_jobs(instance):
        for pid in inner.read()["pids"]:
            kill(pid, signal.SIGALRM)
    time.sleep(0.5)
    end(job, "timeout", "resource allocation expired", "TIMEOUT", signal.SIGALRM)


def end(job: Job, kind: str, note: str, result: str, number: int) -> None:
    """End a job by an exception: its first program gets HUP, all get the signal, and KILL 5 s later."""
    exception = {"occurred": True, "severity": 0, "type": kind, "note": note}
    pids = job.read()["pids"]
    if not pids:
        job.write(state="INACTIVE", result=result, returncode=-128, exception=exception)
        return
    job.write(result=result, exception=exception)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGHUP)
        kill(pid, number)
    if os.fork() == 0:
        os.setsid()
        time.sleep(5)
        for pid in pids:
            kill(pid, signal.SIGKILL)
        os._exit(0)


def run(words: list[str]) -> None:
    made = parser("run")
    made.add_argument("-n", "--ntasks", type=int)
    made.add_argument("-c", "--cores-per-task", type=int)
    made.add_argument("-g", "--gpus-per-task", type=int)
    made.add_argument("--tasks-per-node", type=int)
    made.add_argument("--gpus-per-node", type=int)
    made.add_argument("--taskmap")
    made.add_argument("command", nargs=argparse.REMAINDER)
    args = made.parse_args(words)
    on_each = spread(args)
    nodes, tasks, most = len(on_each), sum(on_each), max(on_each)
    gpus = GPUS if args.exclusive else args.gpus_per_node or most * (args.gpus_per_task or 0)
    if nodes > len(hosts()) or most * (args.cores_per_task or 1) > CORES or gpus > GPUS:
        refuse("run", "unsatisfiable request")
    job = new_job("run")
    threads, processes = [], []
    held: Held = queue.Queue()
    lost: list[float] = []
    over = threading.Event()
    printer = threading.Thread(target=release, args=(held, lost, over))
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8")
    places = [(node, local) for node, each in enumerate(on_each) for local in range(each)]
    for rank, (node, local) in enumerate(places):
        place = {
            "FLUX_TASK_RANK": rank, "FLUX_TASK_LOCAL_ID": local, "FLUX_JOB_SIZE": tasks, "PMI_RANK": rank,
            "FLUX_JOB_NNODES": nodes, "FLUX_JOB_ID": shown(job.number), "PMI_SIZE": tasks,
        }  # fmt: skip
        found = {**os.environ, **{name: str(value) for name, value in place.items()}}
        found["FLUX_PMI_LIBRARY_PATH"] = "/usr/lib/flux/libpmi.so"
        found["OMPI_MCA_btl_vader_backing_directory"] = str(HERE)
        if "gpu-affinity=off" not in args.setopt:
            found |= gpu_variables(gpus)
        process = subprocess.Popen(
            ["unshare", "--uts", "bash", "-c", 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"',
             hosts()[node], *args.command],
            env=found, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        processes.append(process)
        label = f"{rank}: " * args.label_io
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            threads.append(threading.Thread(target=copy, args=(source, target, label, held)))
            threads[-1].start()
    job.write(state="RUN", pids=[process.pid for process in processes])
    printer.start()
    if args.signal and (HERE / "expires").exists():
        name, _, left = args.signal.partition("@")
        seconds_left = float((HERE / "expires").read_text()) - time.time() - float(left or 60)
        number = getattr(signal, f"SIG{name.removeprefix('SIG')}")
        start([threading.Timer(seconds_left, signal_tasks, (job, number))])
    code = wait_for(processes, lost if "exit-on-error" in args.setopt else None)
    for thread in threads:
        thread.join()
    over.set()
    held.put(None)
    printer.join()
    job.write(state="INACTIVE", returncode=code)
    sys.exit(code)


def spread(args: argparse.Namespace) -> list[int]:
    """Return how many tasks each node has: evenly, the first with one more, or as a taskmap says (RFC 34)."""
    per_task = [args.ntasks, args.cores_per_task, args.gpus_per_task]
    if args.tasks_per_node and any(value is not None for value in per_task):
        refuse("run", "Per-resource options can't be used with per-task options. (See --help for details)")
    nodes = args.nodes or 1
    tasks = args.tasks_per_node * nodes if args.tasks_per_node else args.ntasks or 1
    if tasks < nodes:
        refuse("run", "node count must not be greater than task count")
    even = [tasks // nodes + (node < tasks % nodes) for node in range(nodes)]
    if args.taskmap is None:
        return even
    blocks = json.loads(args.taskmap.removeprefix("manual:"))
    mapped = [each for _, count, each, times in blocks for _ in range(count * times)]
    if (len(mapped), sum(mapped)) != (nodes, tasks):
        refuse("run", f"invalid taskmap: got {sum(mapped)} total tasks, expected {tasks}")
    return mapped


def copy(source: IO[str], target: IO[str], label: str, held: Held) -> None:
    for line in source:
        held.put((time.monotonic() + BATCH, f"{label}{line}", target))


def release(held: Held, lost: list[float], over: threading.Event) -> None:
    """Print each line when it is due, or all is over; one that is due after an end in a hurry is lost."""
    while found := held.get():
        due, line, target = found
        over.wait(due - time.monotonic())
        if not lost or due < lost[0]:
            target.write(line)


def wait_for(processes: list[subprocess.Popen[str]], lost: list[float] | None) -> int:
    """Return the highest exit code; the first that is none ends all, or 30 s later where none is in a hurry.

    ``lost`` gets the time of an end in a hurry.
    """
    deadline = 0.0
    while any(process.poll() is None for process in processes):
        time.sleep(0.02)
        if any(process.poll() for process in processes):
            deadline = deadline or time.monotonic() + (30 if lost is None else 0)
        if deadline and time.monotonic() >= deadline:
            if lost is not None:
                lost.append(deadline)
            for process in processes:
                if process.poll() is None:
                    kill(process.pid, signal.SIGTERM)
            time.sleep(0.3)
            for process in processes:
                if process.poll() is None:
                    kill(process.pid, signal.SIGKILL)
    return max(128 - process.returncode if process.returncode < 0 else process.returncode
               for process in processes)  # fmt: skip


HIDDEN = ("jobspec", "options", "pids")


def jobs(words: list[str]) -> None:
    made = argparse.ArgumentParser(prog="flux jobs")
    made.add_argument("-a", action="store_true")
    made.add_argument("-n", "--no-header", action="store_true")
    made.add_argument("-c", "--count", type=int, default=1000)
    made.add_argument("-f", "--filter", default="")
    made.add_argument("-o", "--format", default="")
    made.add_argument("--json", action="store_true")
    made.add_argument("ids", nargs="*")
    args = made.parse_args(words)
    found = all_jobs()
    if args.ids:
        known = {job.number: job for job in found}
        for text in args.ids:
            if number_of(text) not in known:
                sys.stderr.write(f"JobID {text} unknown\n")
        found = [known[number_of(text)] for text in args.ids if number_of(text) in known]
        if not found:
            sys.exit(1)
    elif not args.a:
        found = [job for job in found if job.read()["state"] != "INACTIVE"]
    records = [job.read() for job in found[: args.count]]
    if args.filter == "running":
        records = [record for record in records if record["state"] in ("RUN", "CLEANUP")]
    visible = [{key: value for key, value in record.items() if key not in HIDDEN} for record in records]
    if args.json:
        say(json.dumps(visible[0] if len(args.ids) == 1 else {"jobs": visible}, ensure_ascii=False))
    for record in () if args.json else visible:
        say(args.format.replace("{id.dec}", str(record["id"])).replace("{id.f58}", shown(record["id"])))


def job(words: list[str]) -> None:
    match words:
        case ["id", "--to=dec", text]:
            say(number_of(text))
        case ["info", text, "jobspec"]:
            say(json.dumps(Job(number_of(text)).read()["jobspec"], ensure_ascii=False))
        case ["kill", name, text]:
            for pid in Job(number_of(text)).read()["pids"]:
                kill(pid, getattr(signal, f"SIG{name.removeprefix('--signal=')}"))
        case _:
            refuse("job", f"unknown: {shlex.join(words)}", 2)


def cancel(words: list[str]) -> None:
    failed = False
    for text in words:
        found = Job(number_of(text))
        why = "unknown job id"
        if found.file.exists():
            why = "job is inactive" if found.read()["state"] == "INACTIVE" else ""
        if why:
            sys.stderr.write(f"flux-cancel: ERROR: {shown(found.number)}: {why}\n")
        else:
            end(found, "cancel", "", "CANCELED", signal.SIGTERM)
        failed = failed or bool(why)
    sys.exit(failed)


def hostlist(words: list[str]) -> None:
    if words != ["--expand", "local"]:
        refuse("hostlist", f"unknown: {shlex.join(words)}", 2)
    say(*hosts())


def main() -> None:
    if not HERE.is_dir():
        refuse(sys.argv[1], f"Unable to connect to Flux: broker socket {HERE} was not found")
    verb, words = sys.argv[1], sys.argv[2:]
    if verb == "-shell":
        shell(int(words[0]))
        return
    verbs = {"batch": batch, "run": run, "jobs": jobs, "job": job, "cancel": cancel, "hostlist": hostlist}
    verbs[verb](words)


if __name__ == "__main__":
    main()
