"""A cluster of stand-ins: srun, mpirun, torchrun and others start tasks, each on a node in name only.

Programs record their words and their environment as a line of JSON in ``$RECORD``. The file is run under
the name of each program.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

BARE = {"--label", "-l", "-u", "--unbuffered", "--exclusive", "--overlap", "--exact", "-x", "--bind-to-none"}
"""Options without a value, if it is not attached."""
TWO = {"--mca", "-mca"}


def main() -> int:
    """Act as the program of this name."""
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    act = PROGRAMS.get(name, record)
    return act(name, words) or 0


def number(options: dict[str, str], *names: str) -> int | None:
    """Return the number that one of these options has."""
    found = next((options[name] for name in names if name in options), None)
    return None if found is None else int(found)


def read(words: list[str], bare: set[str] = BARE) -> tuple[dict[str, str], list[str]]:
    """Return the options in front of a program, and the program with its words."""
    options: dict[str, str] = {}
    left = [*words]
    while left and left[0].startswith("-") and left[0] not in ("-m", "--no-python"):
        word = left.pop(0)
        option, equals, value = word.partition("=")
        option = "--" + option[2:].replace("_", "-") if option.startswith("--") else option
        if match := re.fullmatch(r"(-[nNc])(\d+)", option):
            option, equals, value = match[1], "=", match[2]
        if option in TWO:
            value = f"{left.pop(0)} {left.pop(0)}"
        elif not equals and option not in bare:
            value = left.pop(0)
        options[option] = value
    return options, left


def start(words: list[str], **variables: object) -> int:
    """Run a program with further variables, and return its exit code; one that does not exist is recorded."""
    own = {key: str(value) for key, value in variables.items()}
    if shutil.which(words[0]) is None:
        os.environ.update(own)
        return record(Path(words[0]).name, words[1:])
    return subprocess.run(words, env=os.environ | own, check=False).returncode


def srun(_: str, words: list[str]) -> int:
    """Start the tasks of a step, one after the other."""
    options, program = read(words)
    nodes = os.environ["NODES"].split()
    chosen = options.get("-w") or options.get("--nodelist")
    count = number(options, "-N", "--nodes") or (1 if chosen else len(nodes))
    each = number(options, "--ntasks-per-node") or (1 if chosen else int(os.environ["EACH"]))
    total = number(options, "-n", "--ntasks") or count * each
    places = [chosen] if chosen else nodes[:count]
    per_node = -(-total // len(places))
    pmi = {"PMIX_RANK": 0} if "--mpi" in options else {}
    code = 0
    for rank in range(total):
        if "PMIX_RANK" in pmi:
            pmi["PMIX_RANK"] = rank
        code |= start(
            program,
            SLURM_PROCID=rank,
            SLURM_LOCALID=rank % per_node,
            SLURM_NODEID=rank // per_node,
            SLURM_NTASKS=total,
            SLURM_NTASKS_PER_NODE=per_node,
            SLURM_NPROCS=total,
            SLURM_NNODES=len(places),
            SLURMD_NODENAME=places[rank // per_node],
            SLURM_CPUS_PER_TASK=options.get("--cpus-per-task", options.get("-c", os.environ.get("CPUS", ""))),
            CUDA_VISIBLE_DEVICES=",".join(map(str, range(int(os.environ.get("GPUS", "0"))))),
            **pmi,
        )
    return code


def mpirun(_: str, words: list[str]) -> int:
    """Start the ranks on all nodes; what stands behind ``-x`` is set, as Open MPI does it."""
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "-x"]
    options, program = read(words, BARE - {"-x"} | {"--allow-run-as-root"})
    nodes = os.environ["NODES"].split()
    per_node = number(options, "-npernode", "--npernode", "-ppn", "-N") or int(os.environ["EACH"])
    total = number(options, "-np", "-n", "--np") or per_node * len(nodes)
    own = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    code = 0
    for rank in range(total):
        ranks = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": total}
        code |= start(program, **ranks, SLURMD_NODENAME=nodes[rank // -(-total // len(nodes))], **own)
    return code


def flux(_: str, words: list[str]) -> int:
    """Start the tasks of ``flux run`` as those of srun."""
    return srun("srun", words[1:])


def torchrun(_: str, words: list[str]) -> int:
    """Start the processes of this node."""
    options, program = read(words, BARE | {"--standalone"})
    each = number(options, "--nproc-per-node") or 1
    nodes = number(options, "--nnodes") or 1
    where = (
        os.environ["NODES"].split().index(os.environ.get("SLURMD_NODENAME", os.environ["NODES"].split()[0]))
    )
    module = program[0] == "-m"
    plain = program[1:] if program[0] == "--no-python" else ["python", "-u", *program]
    assert not module or plain[2] == "-m"
    code = 0
    for local in range(each):
        ranks = {"RANK": where * each + local, "LOCAL_RANK": local, "WORLD_SIZE": nodes * each}
        code |= start(plain, **ranks)
    return code


def deepspeed(_: str, words: list[str]) -> int:
    """Start the processes of all hosts of the hostfile, as ssh would."""
    options, program = read(words)
    lines = Path(options["--hostfile"]).read_text().split("\n")
    hosts = [(line.split()[0], int(line.split("=")[1])) for line in lines if line]
    each = number(options, "--num-gpus") or hosts[0][1]
    code = 0
    for node, (host, _slots) in enumerate(hosts):
        for local in range(each):
            ranks = {"RANK": node * each + local, "LOCAL_RANK": local, "WORLD_SIZE": len(hosts) * each}
            own = ["python", "-u", program[0], f"--local_rank={local}", *program[1:]]
            code |= start(own, **ranks, SLURMD_NODENAME=host)
    return code


def python(name: str, words: list[str]) -> int:
    """Record the program, or act as a module."""
    modules = {"torch.distributed.run": torchrun}
    left = words[1:] if words[:1] == ["-u"] else words
    if left[:1] == ["-m"] and left[1] in modules:
        return modules[left[1]](name, left[2:])
    return record(name, words)


def record(name: str, words: list[str]) -> int:
    """Write the words, and the environment, as one line."""
    line = json.dumps({"words": [name, *words], "env": dict(os.environ)})
    with Path(os.environ["RECORD"]).open("a") as stream:
        stream.write(f"{line}\n")
    return 0


def scontrol(_: str, words: list[str]) -> int:
    """Print the names of the nodes."""
    if words[:2] in (["show", "hostnames"], ["show", "hostname"]):
        sys.stdout.write(os.environ["NODES"].replace(" ", "\n") + "\n")
    return 0


def hostname(_: str, words: list[str]) -> int:
    """Print the name of this node."""
    del words
    sys.stdout.write(os.environ.get("SLURMD_NODENAME", os.environ["NODES"].split()[0]) + "\n")
    return 0


def ssh(_: str, words: list[str]) -> int:
    """Run a command as if on that node."""
    return start(["bash", "-c", " ".join(words[1:])], SLURMD_NODENAME=words[0])


def quiet(_: str, words: list[str]) -> int:
    """Do nothing."""
    del words
    return 0


PROGRAMS = {
    "srun": srun,
    "flux": flux,
    "mpirun": mpirun,
    "mpiexec": mpirun,
    "horovodrun": mpirun,
    "torchrun": torchrun,
    "deepspeed": deepspeed,
    "python": python,
    "python3": python,
    "scontrol": scontrol,
    "hostname": hostname,
    "ssh": ssh,
    "module": quiet,
    "nvidia-smi": quiet,
    "accelerate": record,
    "record_as": lambda _, words: record(words[0], words[1:]),
    "solver": record,
}

if __name__ == "__main__":
    sys.exit(main())
