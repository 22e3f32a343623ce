"""What is wrong with an experiment though each of its values has the right type."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of


def built(**data: Any) -> Experiment:
    experiment, problems = fields.build(Experiment, {"run": {"cmd": "true"}, **data})
    assert problems == []
    assert experiment is not None
    return experiment


def found(**data: Any) -> list[str]:
    return [str(problem) for problem in problems_of(built(**data))]


def gpus(count: float) -> dict[str, object]:
    return {"gpu": {"limits": count}}


REPLICAS = "environment.replicas"


@pytest.mark.parametrize(
    ("environment", "problems"),
    [
        ({"resources": gpus(-1)}, ["environment.resources.gpu.limits: -1 is not a valid amount of gpu"]),
        ({"resources": gpus(0.5)}, [
            "environment.resources.gpu.limits: 0.5 GPUs cannot be requested: a batch system assigns whole GPUs; write a whole number, or request a MIG profile by `batch.directives`"]),
        ({"resources": {"cpu": {"requests": 3, "limits": 2}}},
         ["environment.resources.cpu: requests (3) are more than limits (2)"]),
        ({"resources": {"memory": {"requests": "2G", "limits": "1G"}}},
         ["environment.resources.memory: requests (2048) are more than limits (1024)"]),
        ({"resources": {"cpu": {"requests": float("inf")}}},
         ["environment.resources.cpu.requests: inf is not a valid amount of cpu"]),
        ({"resources": {"tpu": {"limits": 8}}},
         ["environment.resources.tpu: TPUs are not supported; remove it"]),
        ({"replicas": {"n_workers": -1}}, [f"{REPLICAS}.n_workers: -1 is out of range"]),
        ({"replicas": {"n_workers": 2, "worker": [{}]}},
         [f"{REPLICAS}.worker[0]: this worker has no index; write `index: 0` to `index: 1`"]),
        ({"replicas": {"n_workers": 1, "worker": [{}]}},
         [f"{REPLICAS}.worker[0]: this worker has no index; write `index: 0`"]),
        ({"replicas": {"n_workers": 2, "worker": [{"index": 2}]}},
         [f"{REPLICAS}.worker[0].index: there is no worker 2; allowed: 0 to 1"]),
        ({"replicas": {"ps": [{"index": 0}]}},
         [f"{REPLICAS}.ps[0].index: there is no ps 0; allowed: none (there are no ps replicas)"]),
        ({"replicas": {"n_ps": 1, "ps": [{"index": 0}, {"index": 0, "resources": gpus(-2)}]}},
         [f"{REPLICAS}.ps[1].index: ps 0 is listed twice",
          f"{REPLICAS}.ps[1].resources.gpu.limits: -2 is not a valid amount of gpu"]),
        ({"replicas": {"default_worker": {"resources": gpus(1.5)}, "n_workers": 0}}, [
            f"{REPLICAS}.default_worker.resources.gpu.limits: 1.5 GPUs cannot be requested: a batch system assigns whole GPUs; write a whole number, or request a MIG profile by `batch.directives`"]),
        ({"node_selector": {"partition": ""},
          "replicas": {"n_ps": 1, "default_ps": {"node_selector": {"x": ""}}, "ps": [{"index": 0, "node_selector": {"y": ""}}]}},
         [f"{path}: the value is empty; write a value, or remove the key" for path in (
             "environment.node_selector.partition", f"{REPLICAS}.default_ps.node_selector.x", f"{REPLICAS}.ps[0].node_selector.y")]),
        ({"env_vars": {"A-B": 1}}, ["environment.env_vars.A-B: 'A-B' is not a valid variable name"]),
        ({"env_vars": {"HPCDIST_RANK": 1}}, ["environment.env_vars.HPCDIST_RANK: the variable HPCDIST_RANK is reserved for hpcdist"]),
        ({"env_vars": {"UID": 1}}, ["environment.env_vars.UID: the variable UID is reserved for bash"]),
        ({"env_vars": {"A": "x" * 200_000}},
         ["environment.env_vars.A: the variable A has 195 KiB; Linux accepts at most 120 KiB in one argument or variable; write it to a file that the program reads"]),
    ],
)  # fmt: skip
def test_problems_that_types_do_not_exclude(environment: dict[str, object], problems: list[str]) -> None:
    assert found(environment=environment) == problems


@pytest.mark.parametrize("cmd", ["", " \n"])
def test_an_empty_command(cmd: object) -> None:
    assert found(run={"cmd": cmd}) == [
        "run.cmd: the command is empty; write the command that starts the program"
    ]


@pytest.mark.parametrize(
    ("cmd", "problem"),
    [
        (["python", "t.py", "--lr", "0.1"], "[2]: '--lr' is not a command; each item of a list is one; write one text: `cmd: 'python t.py --lr 0.1'`"),
        (["python", "t.py", "--n=a b"], "[2]: '--n=a b' is not a command; each item of a list is one; write one text: `cmd: 'python t.py ''--n=a b'''`"),
        (["python t.py --betas 0.9", "0.99"], "[1]: '0.99' is not a command; each item of a list is one; write one text: `cmd: 'python t.py --betas 0.9, 0.99'`"),
    ],
)  # fmt: skip
def test_a_list_that_holds_one_command(cmd: list[str], problem: str) -> None:
    assert found(run={"cmd": cmd}) == [f"run.cmd{problem}"]


def test_a_list_of_commands() -> None:
    assert found(run={"cmd": ["cd x", "python t.py -n 3", "7z x.7z", "./a"]}) == []


@pytest.mark.parametrize(
    ("cmd", "hint"),
    [
        (["python3", "./train.py"], "python3 ./train.py"),
        (["/usr/bin/python3.11", "train.py"], "/usr/bin/python3.11 train.py"),
        (["cd x", "bash", "run.sh"], None),
        (["mpirun", "./a"], "mpirun ./a"),
    ],
)
def test_a_list_that_may_be_one_command_is_a_warning(cmd: list[str], hint: str | None) -> None:
    """Of a command that needs another word nothing is left to run."""
    (text,) = found(run={"cmd": cmd})
    at = 0 if hint else 1
    assert text.startswith(
        f"run.cmd[{at}]: each item of a list is a separate command: {cmd[at]!r}, then {cmd[at + 1]!r}"
    )
    assert hint is None or text.endswith(f"; write them as one text: `cmd: '{hint}'`")


@pytest.mark.parametrize(
    "cmd",
    [["make", "./run"], ["python a.py", "python b.py"], ["./a", "python3"], ["module load python", "./a"]],
)
def test_list_of_several_commands_does_not_warn(cmd: list[str]) -> None:
    assert found(run={"cmd": cmd}) == []


TOO_LONG = "195 KiB; Linux accepts at most 120 KiB in one argument or variable; write it to a file that the program reads"


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        ({"run": {"cmd": "x" * 200_000}}, [f"run.cmd: the command has {TOO_LONG}"]),
        ({"params": {"a": "x" * 200_000}}, [f"params: the section has {TOO_LONG}"]),
        ({"build": {"env_vars": [["PPID", 1], ["A"]]}},
         ["build.env_vars[0]: the variable PPID is reserved for bash", "build.env_vars[1]: ['A'] is not a variable; write [NAME, value]"]),
        ({"logging": {"level": "warning"}}, []),
        ({"logging": {"level": "INFOO"}}, ["logging.level: there is no log level 'INFOO'; did you mean 'INFO'?"]),
        ({"batch": {"array": "x y"}}, ["batch.array: 'x y' is not a job array; write 0-15, 0-15:4, 1,3,5 or 0-15%4"]),
        ({"batch": {"signal": "B:BOGUS", "dependency": ["after all"], "mail": {"user": "me", "events": ["end", "finish"]}}}, [
            "batch.dependency: 'after all' is not a dependency; write an id or a run, afterok:ID:ID or singleton",
            "batch.signal: there is no signal 'BOGUS'; known: ABRT, ALRM, CONT, HUP, INT, KILL, QUIT, STOP, TERM, TSTP, TTIN, TTOU, URG, USR1, USR2",
            "batch.mail.events[1]: 'finish' is not a mail event; known: all, array_tasks, begin, end, fail, invalid_depend, none, requeue, stage_out, time_limit, time_limit_50, time_limit_80, time_limit_90",
        ]),
    ],
)  # fmt: skip
def test_invalid_texts(data: dict[str, object], problems: list[str]) -> None:
    assert found(**data) == problems


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"processes_per_replica": 0}, "environment.processes_per_replica: 0 is out of range; write a number from 1 to 1000000"),
        ({"max_restarts": -1}, "environment.max_restarts: -1 is out of range; write a number from 0 to 1000000"),
        ({"replicas": {"n_workers": 10**11}}, "environment.replicas.n_workers: 100000000000 is out of range"),
    ],
)  # fmt: skip
def test_numbers_out_of_range(section: dict[str, Any], message: str) -> None:
    assert message in found(environment=section)


IMAGE = {"build": {"image": "x:1"}}


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (IMAGE | {"run": {"entrypoint": "image", "args": "", "workdir": "/w"}}, []),
        (IMAGE | {"run": {"entrypoint": "image", "args": {"master": "x", "workers": ""}}}, [
            "run.args.workers: there is no role 'workers'; did you mean 'worker'?"]),
        (IMAGE | {"run": {}}, [
            "run: 'cmd' is missing; write the command, or `entrypoint: image` for the image's own program"]),
        ({"run": {"args": "x"}}, ["run: 'cmd' is missing"]),
        ({"run": {"entrypoint": "image"}}, [
            "run.entrypoint: there is no image; write `build: {image: ...}`, or a `cmd`"]),
        ({"run": {"cmd": "x", "workdir": "/w"}},
         ["run.workdir: 'workdir' is a folder of an image, and there is none; remove it: the program starts in the submit directory"]),
        ({"stage": [{"from": "$X/a", "to": "tmp", "unpack": True}]}, [
            "stage[0].from: variables and ~ are not expanded in '$X/a'; write the path itself",
            "stage[0].to: 'tmp' is not an absolute path; write `node_local`, or /PATH",
            "stage[0].unpack: '$X/a' is not an archive; remove it, or name an archive: .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz, .tar.zst, .zip"]),
        ({"stage": [{"from": ".", "to": "/d"}, {"from": "/", "to": "/"}, {"from": "a/..", "to": "/a/../b"}]}, [
            "stage[0].from: '.' has no name for its copy; write a path that ends with its name, such as /proj/data",
            "stage[1].from: '/' has no name for its copy; write a path that ends with its name, such as /proj/data",
            "stage[1].to: '/' is no folder for data; write a folder for this data, such as /scratch/data",
            "stage[2].from: 'a/..' has no name for its copy; write a path that ends with its name, such as /proj/data",
            "stage[2].to: '/a/../b' is no folder for data; write a folder for this data, such as /scratch/data"]),
        ({"stage": [{"from": "/a/x"}, {"from": "/b/x/"}, {"from": "/c/x.tar.gz", "unpack": True}, {"from": "/c/x", "to": "/d"}]}, [
            "stage[1]: '/a/x' and '/b/x/' would both be 'x' in node_local; rename one, or write another `to`",
            "stage[2]: '/a/x' and '/c/x.tar.gz' would both be 'x' in node_local; rename one, or write another `to`"]),
        ({"build": {"binds": ["/data"]}}, ["build.binds: there is no image; write `image`, or remove them"]),
        ({"build": {"image": "x", "binds": ["/a b", "/a:/b:ro:x"]}}, [
            "build.binds[0]: '/a b' is not a valid bind; write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only",
            "build.binds[1]: '/a:/b:ro:x' is not a valid bind; write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only"]),
        ({"build": {"image": "x", "binds": ["/a:/b:zz", "/a:/c", "/d:/c:ro", "/c", "/a:/c"]}}, [
            "build.binds[0]: '/a:/b:zz' is not a valid bind; write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only",
            "build.binds[2]: '/a' and '/d' would both be '/c' in the container; write another target: SRC:DST",
            "build.binds[3]: '/a' and '/c' would both be '/c' in the container; write another target: SRC:DST"]),
        ({"run": {"cmd": "x", "prepare": {"cmd": ""}, "finish": {"cmd": " # nothing"}, "beside": [{"cmd": "y"}, {"cmd": ""}]}}, [
            "run.prepare.cmd: the command is empty; write one, or remove it",
            "run.finish.cmd: the command is empty; write one, or remove it",
            "run.beside[1].cmd: the command is empty; write one, or remove it"]),
        (IMAGE | {"run": {"entrypoint": "image", "workdir": "w"}}, [
            "run.workdir: 'w' is not an absolute path; write the path in the image, beginning with /"]),
        (IMAGE | {"run": {"entrypoint": "image", "cmd": "x", "args": "y"}}, [
            "run.entrypoint: 'entrypoint' has no effect: `cmd` is the program; remove one of the two",
            "run.args: 'args' has no effect: `cmd` is the program; remove one of the two"]),
    ],
)  # fmt: skip
def test_the_program(data: dict[str, Any], problems: list[str]) -> None:
    assert found(**data) == problems
