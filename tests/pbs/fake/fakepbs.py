# ruff: noqa: T201 - what these programs print is what they are for
"""A batch system that behaves as an OpenPBS 23.06 was seen to: qsub, qstat, qselect and qdel.

There is no daemon: each job has a process of its own on the submit host, which waits for hosts to be free,
and one on its first host, which runs the script. All share a folder, ``$FAKE_PBS``. Its ``config.json`` says
what the machine is: ``hosts`` (name: {ncpus, ngpus}), ``queues``, ``resources`` beyond PBS's own,
``history``, ``ssh`` (whether the hosts are others), ``demands`` (resources that each job must name).
It needs no more than Python's own library, since it runs on hosts without hpcdist. What qsub refuses is in
``refusals.py``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # a program, started by its path

from tests.pbs.fake import refusals
from tests.pbs.fake.refusals import SERVER, Refused

Record = dict[str, Any]

SPOOL = Path(os.environ.get("FAKE_PBS", "/nonexistent"))
LOG = SPOOL / "log"
"""What the processes of jobs write: nothing, where all is well."""
UNKNOWN_JOB, FINISHED, UNREACHABLE = (number % 256 for number in (15001, 15139, 15010))
DELETED, ENDED_WELL, FAILED = 91, 92, 93
NODE_PATH = "/bin:/usr/bin"
HOME = os.environ.get("HOME", "/")
"""The test's, and not that of its user, whose profile may do anything."""
NO_HISTORY = "PBS is not configured to maintain job history"


def config() -> Record:
    data: Record = json.loads((SPOOL / "config.json").read_text())
    return data


@contextlib.contextmanager
def locked() -> Iterator[None]:
    with (SPOOL / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def job_file(number: str) -> Path:
    return SPOOL / "jobs" / f"{number}.json"


def submitted(number: str) -> Path:
    """Return the file of a job that is none until its server has it: qsub may be killed before."""
    return job_file(number).with_suffix(".submitted")


def load(number: str) -> Record:
    data: Record = json.loads(job_file(number).read_text())
    return data


def save(number: str, record: Record) -> None:
    part = job_file(number).with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(record))
    part.replace(job_file(number))


def change(number: str, **values: object) -> Record:
    with locked():
        record = load(number) | values
        save(number, record)
    return record


# --- qsub ---------------------------------------------------------------------------------------------


def qsub(argv: list[str]) -> int:
    options, rest = refusals.options_of(argv)
    if len(rest) != 1:
        raise Refused("usage: qsub [options] script", 2)
    try:
        text = Path(rest[0]).read_bytes().decode()
    except OSError as error:
        raise Refused(f"qsub: script file:: {error.strerror}") from None
    if "\r\n" in text:
        raise Refused("qsub: script contains cr, lf")
    given = [*refusals.directives(text), *options]
    record = job_of(given)
    with locked():
        counter = SPOOL / "counter"
        number = int(counter.read_text()) + 1 if counter.exists() else 1000
        counter.with_suffix(".new").write_text(str(number))  # qsub may be killed at any moment
        counter.with_suffix(".new").rename(counter)
        (SPOOL / "jobs").mkdir(exist_ok=True)
        name = f"{number}[]" if record["array"] else str(number)
        text_of_job = json.dumps(record | {"script_text": text, "ctime": time.time()})
        submitted(name).write_text(text_of_job)
    detached("serve", name)
    while submitted(name).exists():
        time.sleep(0.01)
    print(f"{name}.{SERVER}")
    return 0


def job_of(given: list[tuple[str, str]]) -> Record:
    record: Record = {
        "state": "Q", "name": "STDIN", "account": "", "queue": config()["queues"][0], "array": "",
        "depend": "",
        "variables": {}, "resources": {}, "output": "", "error": "", "join": "n", "keep": "n", "shell": "",
        "rerun": "y", "umask": "077", "workdir": os.environ.get("PWD") or str(Path.cwd()), "comment": "",
        "path": os.environ.get("PATH", NODE_PATH),
        "arguments": shlex.join(sys.argv[2:]), "user": pwd.getpwuid(os.getuid()).pw_name,
    }  # fmt: skip
    names = {"A": "account", "o": "output", "e": "error", "j": "join", "S": "shell", "r": "rerun"}
    names |= {"N": "name", "J": "array", "k": "keep"}
    for letter, value in given:
        refusals.check_value(letter, value)
        if letter in names:
            record[names[letter]] = value
        elif letter in READERS:
            READERS[letter](record, value)
    refusals.check_array(record["array"], record["rerun"])
    own = frozenset(config().get("resources", []))
    refusals.check_resources(record["resources"], own)
    for name in config().get("demands", []):
        if name not in record["resources"]:
            raise Refused(f"qsub: Job rejected: you must say -l {name}=", refusals.REJECTED)
    return record


def read_queue(record: Record, value: str) -> None:
    record["queue"] = value.partition("@")[0]
    if record["queue"] not in config()["queues"]:
        raise Refused("qsub: Unknown queue", refusals.UNKNOWN_QUEUE)


def read_attributes(record: Record, value: str) -> None:
    record.update(refusals.attributes(value))


def read_resources(record: Record, value: str) -> None:
    record["resources"].update(refusals.resources(value))  # a second one replaces the first in silence


def read_variables(record: Record, value: str) -> None:
    for part in re.split(r"(?<!\\),", value):
        name, equals, text = part.partition("=")
        if not equals and name not in os.environ:
            raise Refused(f"qsub: cannot send environment with the job: {name}", 1)
        record["variables"][name] = text if equals else os.environ[name]


def read_environment(record: Record, _: str) -> None:
    record["variables"] = dict(os.environ) | record["variables"]


READERS = {
    "q": read_queue, "W": read_attributes, "l": read_resources, "v": read_variables, "V": read_environment,
}  # fmt: skip


def chunks(record: Record) -> list[dict[str, str]]:
    """Return every chunk, one after the other."""
    resources = record["resources"]
    if "select" not in resources:
        kind = {name: resources[name] for name in ("ncpus", "ngpus", "mem") if name in resources}
        return [{"ncpus": "1"} | kind]
    return [dict(words) for count, words in refusals.kinds(resources["select"]) for _ in range(count)]


def detached(*words: str) -> None:
    with LOG.open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-E", "-s", "-B", __file__, *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip


# --- the server: one process for each job ---------------------------------------------------------------


def serve(number: str) -> int:
    if submitted(number).exists():
        submitted(number).replace(job_file(number))
    record = load(number)
    if number.endswith("[]"):
        return serve_array(number, record)
    if not wait_for_others(number, record):
        return 0
    while (hosts := start(number)) is None:
        if (record := load(number)).get("deleted"):
            comment = f"{record['comment']} and terminated"
            change(number, state="F", substate=DELETED, comment=comment)
            return 0
        time.sleep(0.05)
    words = [sys.executable, "-E", "-s", "-B", __file__, "mom", number]
    if config().get("ssh"):
        words = ["ssh", hosts[0], shlex.join(["env", f"FAKE_PBS={SPOOL}", *words])]
    code = subprocess.run(words, stdin=subprocess.DEVNULL, check=False).returncode
    if load(number)["state"] == "R":
        print(f"job {number}: its MoM ended with {code} before the job did", file=sys.stderr)
        change(number, state="F", substate=FAILED, exit=-20)
    return 0


def wait_for_others(number: str, record: Record) -> bool:
    """Wait for what the job depends on; one that cannot come to pass is the end of it, without a code."""
    for wait in filter(None, record["depend"].split(",")):
        kind, *ids = wait.split(":")
        for other in (text.partition(".")[0] for text in ids):
            while job_file(other).exists() and (told := load(other))["state"] != "F":
                if load(number).get("deleted"):
                    change(number, state="F", substate=DELETED)
                    return False
                if load(number)["state"] != "H":
                    change(number, state="H")
                time.sleep(0.05)
            well = job_file(other).exists() and told.get("exit") == 0
            if (
                not job_file(other).exists()
                or (kind == "afterok" and not well)
                or (kind == "afternotok" and well)
            ):
                change(number, state="F", substate=ENDED_WELL)
                return False
    change(number, state="Q")
    return True


def start(number: str) -> list[str] | None:
    """Take hosts for the job; None while there are none."""
    with locked():
        record = load(number)
        if record.get("deleted"):
            return None
        machine = {name: dict(sizes) for name, sizes in config()["hosts"].items()}
        if allocate(record, machine) is None:
            ask = "+".join(f"{chunk}" for chunk in chunks(record)[:1])
            comment = f"Can Never Run: Insufficient amount of resource: {lacking(record, machine)}"
            if record["comment"] != comment:
                save(number, record | {"comment": comment, "asked": ask})
            return None
        for file in (SPOOL / "jobs").glob("*.json"):
            other = json.loads(file.read_text())
            if other["state"] in "RE":
                for name, sizes in other.get("taken", []):
                    for resource, amount in sizes.items():
                        machine[name][resource] = machine[name].get(resource, 0) - amount
        taken = allocate(record, machine)
        if taken is None:
            comment = f"Not Running: Insufficient amount of resource: {lacking(record, machine)}"
            save(number, record | {"comment": comment})
            return None
        exec_host = "+".join(f"{name}/0*{sizes['ncpus']}" for name, sizes in taken)
        comment = f"Job run at {time.strftime('%a %b %d at %H:%M')} on ({exec_host})"
        save(number, record | {"state": "R", "taken": taken, "comment": comment, "exec_host": exec_host})
        return [name for name, _ in taken]


def allocate(record: Record, machine: Record) -> list[tuple[str, dict[str, int]]] | None:
    """Return a host for each chunk; ``scatter`` gives each one of its own, otherwise hosts fill up."""
    place = record["resources"].get("place", "free").split(":")[0]
    free = {name: dict(sizes) for name, sizes in machine.items()}
    taken: list[tuple[str, dict[str, int]]] = []
    for chunk in chunks(record):
        need = {name: int(chunk.get(name, 1 if name == "ncpus" else 0)) for name in ("ncpus", "ngpus")}
        used = {name for name, _ in taken}
        fitting = [
            name for name, sizes in free.items()
            if all(sizes.get(resource, 0) >= amount for resource, amount in need.items())
            and not (place == "scatter" and name in used)
            and not (place == "pack" and used and name not in used)
        ]  # fmt: skip
        if not fitting:
            return None
        for resource, amount in need.items():
            free[fitting[0]][resource] = free[fitting[0]].get(resource, 0) - amount
        taken.append((fitting[0], need))
    return taken


def lacking(record: Record, machine: Record) -> str:
    most = max(int(chunk.get("ngpus", 0)) for chunk in chunks(record))
    return "ngpus" if most > max(sizes.get("ngpus", 0) for sizes in machine.values()) else "ncpus"


def serve_array(number: str, record: Record) -> int:
    match = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?:%(\d+))?", record["array"])
    assert match
    indexes = range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))
    most = int(match[4] or len(indexes))
    if not wait_for_others(number, record):
        return 0
    base = number.removesuffix("[]")
    elements = [f"{base}[{index}]" for index in indexes]
    for index, element in zip(indexes, elements, strict=True):
        save(element, load(number) | {"array": "", "depend": "", "index": index, "state": "Q"})
    waiting, running, codes = list(elements), list[str](), [0]
    while waiting or running:
        codes += [load(element).get("exit", 0) for element in running if load(element)["state"] == "F"]
        running = [element for element in running if load(element)["state"] != "F"]
        while waiting and len(running) < most:
            running.append(waiting.pop(0))
            detached("serve", running[-1])
        if load(number).get("deleted"):
            began = load(number)["state"] == "B"
            for element in waiting:
                change(element, state="F", substate=DELETED, **({"exit": 1} if began else {}))
            waiting = []
            for element in running:
                change(element, deleted=True)
        states = [load(element)["state"] for element in elements]
        counts = {"Queued": states.count("Q"), "Running": states.count("R"), "Exiting": states.count("E")}
        began = load(number)["state"] == "B" or set(states) - {"Q"} != set()
        change(number, state="B" if began else "Q", counts=counts | {"Expired": states.count("F")})
        time.sleep(0.05)
    finished = [load(element) for element in elements]
    substate = (
        DELETED if any(element.get("deleted") or element["substate"] == DELETED for element in finished)
        else FAILED if any(element["exit"] for element in finished)
        else ENDED_WELL
    )  # fmt: skip
    # Its own code is that of the element that ended last.
    change(number, state="F", substate=substate, exit=codes[-1])
    return 0


# --- the first host -------------------------------------------------------------------------------------


def mom(number: str) -> int:
    record = load(number)
    folder = SPOOL / "mom" / number
    folder.mkdir(parents=True)
    script = folder / "SC"
    script.write_text(record["script_text"])
    script.chmod(0o700)
    names = [host for (host, _), chunk in zip(record["taken"], chunks(record), strict=True)
             for _ in range(int(chunk.get("mpiprocs", 1)))]  # fmt: skip
    (folder / "nodefile").write_text("".join(f"{name}\n" for name in names))
    output, error = destinations(record, number)
    direct = set(record["keep"]) == set("oed")
    os.umask(int(record["umask"], 8))
    with contextlib.ExitStack() as stack:
        try:
            out = stack.enter_context((output if direct else folder / "OU").open("wb"))
            err = (
                out
                if "oe" in record["join"]
                else stack.enter_context((error if direct else folder / "ER").open("wb"))
            )
        except OSError:
            change(number, state="E")
            return 0
        user = pwd.getpwuid(os.getuid())
        # MoM starts the shell as a login shell and tells it the script's path.
        process = subprocess.Popen(
            [record["shell"] or user.pw_shell, "-l", script],
            env=environment(number, record, folder), cwd=HOME, stdin=subprocess.DEVNULL,
            stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        code = ended(number, record, process)
    if not deliver(folder, output, error, direct=direct):
        change(number, state="E")  # and delivery is tried again, for hours
        return 0
    deleted = load(number).get("deleted")
    substate = DELETED if deleted else ENDED_WELL if code == 0 else FAILED
    words = {DELETED: f"terminated by {record['user']}@{SERVER}", ENDED_WELL: "finished", FAILED: "failed"}
    comment = f"{record['comment']} and {words[substate]}"
    change(number, state="F", substate=substate, exit=code, comment=comment)
    return 0


def environment(number: str, record: Record, folder: Path) -> dict[str, str]:
    user = pwd.getpwuid(os.getuid())
    first = chunks(record)[0]
    own = {
        "HOME": HOME, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell,
        "PATH": NODE_PATH, "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": f"{number}.{SERVER}",
        "PBS_JOBNAME": record["name"], "PBS_QUEUE": record["queue"], "PBS_NODEFILE": str(folder / "nodefile"),
        "PBS_O_WORKDIR": record["workdir"], "PBS_O_PATH": record["path"], "PBS_NODENUM": "0",
        "PBS_TASKNUM": "1", "TMPDIR": str(folder),
        "PBS_JOBDIR": HOME,
    }  # fmt: skip
    if "index" in record:
        array = f"{number.partition('[')[0]}[].{SERVER}"
        own |= {"PBS_ARRAY_INDEX": str(record["index"]), "PBS_ARRAY_ID": array}
    cpus = {name: first.get("ompthreads", first.get("ncpus", "1")) for name in ("OMP_NUM_THREADS", "NCPUS")}
    variables: dict[str, str] = record["variables"]
    return {"PATH": NODE_PATH, **variables, **own, **cpus} | {
        name: variables[name] for name in ("PATH", "TMPDIR") if name in variables
    }


def destinations(record: Record, number: str) -> tuple[Path, Path]:
    index = str(record.get("index", ""))
    suffix = f"{number.partition('[')[0]}{'.' + index if index else ''}"

    def one(text: str, letter: str) -> Path:
        text = text.replace("^array_index^", index)
        path = Path(record["workdir"], text or f"{record['name']}.{letter}{suffix}")
        return path / f"{number}.{SERVER}.{letter.upper()}U" if path.is_dir() or text.endswith("/") else path

    return one(record["output"], "o"), one(record["error"], "e")


def ended(number: str, record: Record, process: subprocess.Popen[bytes]) -> int:
    """Wait for the script; after its walltime, or qdel, all of it gets TERM, and KILL three seconds later.

    What outlives the script has until then, too (OpenPBS 23.06.06 was seen to give it its kill_delay, 10 s).
    """
    whole = record["resources"].get("walltime", "100000000").partition(".")[0]  # as decode_time of OpenPBS
    parts = [int(part) for part in whole.split(":")]
    limit = sum(part * 60**power for power, part in enumerate(reversed(parts)))
    began, told, over = time.monotonic(), 0.0, False
    while process.poll() is None:
        now = time.monotonic()
        over = over or now - began > limit
        if not told and (over or load(number).get("deleted")):
            told = now
            signal_session(process.pid, signal.SIGTERM)
        elif told and now - told > 3:
            signal_session(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    while told and time.monotonic() - told < 3 and signal_session(process.pid, 0):
        time.sleep(0.05)
    signal_session(process.pid, signal.SIGKILL)
    if over:
        return -29
    return 256 - process.returncode if process.returncode < 0 else process.returncode


def signal_session(session: int, number: int) -> bool:
    """Signal its processes; return whether there are any."""
    found = False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # Any process of the machine is read, and a name of 15 bytes may end within a character.
            if int((process / "stat").read_bytes().rpartition(b")")[2].split()[3]) == session:
                os.kill(int(process.name), number)
                found = True
    return found


def deliver(folder: Path, output: Path, error: Path, *, direct: bool) -> bool:
    if direct:
        return True
    try:
        for name, path in (("OU", output), ("ER", error)):
            if (folder / name).exists():
                shutil.copyfile(folder / name, path)
                path.chmod(0o600)
    except OSError:
        return False
    return True


# --- qstat, qselect, qdel -------------------------------------------------------------------------------


def qstat(argv: list[str]) -> int:
    if "--version" in argv:
        print("pbs_version = 23.06.06")
        return 0
    options = [word for word in argv if word.startswith("-")]
    if argv[len(options) - 2 : len(options) + 1] != ["-f", "-F", "dsv"] or set(options) - {
        "-x",
        "-t",
        "-f",
        "-F",
    }:
        raise Refused("usage: the tests know qstat [-x] [-t] -f -F dsv ID...", 2)
    code = 0
    for job_id in argv[len(options) + 1 :]:
        code = shown_one(job_id, history="-x" in options, elements="-t" in options) or code
    return code


def shown_one(job_id: str, *, history: bool, elements: bool) -> int:
    """Print a job, with an array's elements, or why it cannot be shown."""
    number, kept = job_id.partition(".")[0], config().get("history", True)
    name = f"{number}.{SERVER}"
    if history and not kept:
        print(f"qstat: {NO_HISTORY} {name}", file=sys.stderr)
        return 0
    if not job_file(number).exists() or (load(number)["state"] == "F" and not kept):
        print(f"qstat: Unknown Job Id {name}", file=sys.stderr)
        return UNKNOWN_JOB
    if load(number)["state"] == "F" and not history:
        said = "Job has finished, use -x or -H to obtain historical job information"
        print(f"qstat: {name} {said}", file=sys.stderr)
        return FINISHED
    files = SPOOL.glob(f"jobs/{number[:-1].replace('[', '[[]')}[0-9]*.json") if elements else ()
    for found in (number, *sorted(file.stem for file in files)):
        fields = (f"{name}={dsv(value)}" for name, value in shown(load(found)).items())
        print(f"Job Id: {found}.{SERVER}", *fields, sep="|")
    return 0


def dsv(value: object) -> str:
    """Write a value as ``prt_attr`` of qstat.c does."""
    text = re.sub(r"\\(?![,\"'])|\|", r"\\\g<0>", str(value))
    return text.replace("\n", "\\n").replace("\f", "\\f")


def shown(record: Record) -> Record:
    counts = record.get("counts", {})
    values: Record = {
        "Job_Name": record["name"],
        "Job_Owner": f"{record['user']}@{SERVER}",
        "job_state": record["state"],
        "queue": record["queue"],
        "server": SERVER,
        "depend": record["depend"] or None,
        "exec_host": record.get("exec_host"),
        "Hold_Types": "s" if record["state"] == "H" else "n",
        **{f"Resource_List.{name}": value for name, value in record["resources"].items()},
        "substate": record.get("substate", 42 if record["state"] == "R" else 10),
        "Variable_List": ",".join(f"{name}={escaped(value)}" for name, value in variables(record).items()),
        "comment": record["comment"] or None,
        "run_count": 1 if "exec_host" in record else None,
        "Exit_status": record.get("exit"),
        "Submit_arguments": record["arguments"],
    }
    if record["array"]:
        values |= {
            "array": "True",
            "array_state_count": " ".join(f"{k}:{v}" for k, v in counts.items()) + " ",
        }
    return {name: value for name, value in values.items() if value is not None}


def variables(record: Record) -> dict[str, str]:
    return {"PBS_O_WORKDIR": record["workdir"], "PBS_O_PATH": record["path"], **record["variables"]}


def escaped(text: str) -> str:
    """Put a backslash before what ends a variable, as qsub does."""
    return re.sub(r"[,\"'\\]", r"\\\g<0>", text)


def qselect(argv: list[str]) -> int:
    history = "-x" in argv
    if history and not config().get("history", True):
        print(f"qselect: {NO_HISTORY}", file=sys.stderr)
        return 0
    for file in sorted((SPOOL / "jobs").glob("*.json")):
        record = load(file.stem)
        mine = record["user"] == argv[argv.index("-u") + 1] and "index" not in record
        if mine and (history or record["state"] != "F"):
            print(f"{file.stem}.{SERVER}")
    return 0


def qdel(argv: list[str]) -> int:
    code = 0
    for job_id in argv:
        number, kept = job_id.partition(".")[0], config().get("history", True)
        if not job_file(number).exists() or (load(number)["state"] == "F" and not kept):
            print(f"qdel: Unknown Job Id {number}.{SERVER}", file=sys.stderr)
            code = UNKNOWN_JOB
        elif load(number)["state"] == "F":
            print(f"qdel: Job has finished {number}.{SERVER}", file=sys.stderr)
            code = FINISHED
        else:
            change(number, deleted=True)
    return code


def check(files: list[str]) -> int:
    """Tell what qsub would refuse of these scripts, without a job."""
    for file in files:
        try:
            job_of([*refusals.directives(Path(file).read_text())])
        except Refused as refused:
            print(f"{Path(file).name}: {refused}")
    return 0


def main(program: str, argv: list[str]) -> int:
    verbs = {"check": check, "qsub": qsub, "qstat": qstat, "qselect": qselect, "qdel": qdel}
    if program in ("serve", "mom"):
        return (serve if program == "serve" else mom)(argv[0])
    if not SPOOL.is_dir():
        end = "Couldn't connect to cluster:" if program == "qdel" else f"{program}: cannot connect to server"
        number = "" if program == "qdel" else " (errno=15010)"
        print(f"Connection refused\n{end} {SERVER}{number}", file=sys.stderr)
        return 255 if program == "qstat" else UNREACHABLE
    try:
        return verbs[program](argv)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return refused.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
