"""The options of launchers that users start themselves, and the meaning of each.

Sources: mpirun(1) of Open MPI 4.1 and 5, mpiexec of Hydra (MPICH, Intel MPI;
https://github.com/pmodels/mpich/blob/main/src/pm/hydra/mpiexec/options.c), ``horovodrun --help`` 0.28,
``torchrun --help`` 2, srun(1), ``--help`` of deepspeed 0.16, accelerate 1.2, fabric 2.5, colossalai 0.4,
msrun 2.4, composer 0.28; https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.experiment.shell_words import is_computed

# --- Hosts in a launch line: of the job, or of another machine or system

HOSTFILE: Final = '"$HPCDIST_HOSTFILE"'
FOREIGN_HOSTFILES: Final = {
    "/generated/hostfile": "Gradient",
    "/etc/mpi/hostfile": "Kubeflow",
    "/job/hostfile": "DeepSpeed",
}
"""Where other systems write the hosts of a job: Gradient (its documentation, "Distributed Training using
Horovod"), Kubeflow's mpi-operator, and where DeepSpeed looks by itself (deepspeed/launcher/constants.py)."""
_ANY: Final = "|".join(map(re.escape, FOREIGN_HOSTFILES))
_HERE: Final = re.compile(rf"(?<![\w./-])(?:{_ANY})(?![\w.-])")
_QUOTED: Final = re.compile(
    rf"""'[^']*' | "(?:[^"\\]|\\.)*" | \\. | (?<![\w./-])(?:{_ANY})(?![\w.-])""", re.VERBOSE | re.DOTALL
)
_LOCAL: Final = re.compile(
    r"localhost(?:\.localdomain)?|ip6-localhost|127(?:\.\d+){3}|::1|\[::1\]|0\.0\.0\.0"
)
_HOSTS: Final = re.compile(r"(?:\$\((?:[^()]|\([^()]*\))*\)|\$\{[^{}]*\}|`[^`]*`|\[[^\[\]]*\]|[^,])+")
"""The parts between commas, except commas inside expansions of bash or lists such as ``node[1,3]``."""
_RELATIVE: Final = re.compile(r"\+[ne]\d*")
"""Open MPI's syntax for hosts of the job (mpirun(1), "Relative Indexing")."""


def with_hostfile(text: str) -> str:
    """Return a command with other systems' hostfiles replaced by hpcdist's, however they are quoted."""
    return _QUOTED.sub(_with_ours, text)


def foreign_hostfiles(text: str) -> list[str]:
    """Return the hostfiles of other systems that a command names, each once."""
    return list(dict.fromkeys(_HERE.findall(text)))


def _with_ours(match: re.Match[str]) -> str:
    quotation = {"'": "'\"$HPCDIST_HOSTFILE\"'", '"': "$HPCDIST_HOSTFILE"}.get(match[0][0])
    if quotation is None:
        return HOSTFILE if match[0] in FOREIGN_HOSTFILES else match[0]
    return _HERE.sub(lambda _: quotation, match[0])


def hosts_in(kind: str, value: str) -> Iterator[str]:
    """Yield the hosts that the value of an option names, without the slots of each.

    ``kind`` is one of `launch.options`: hosts, include (``host:0,1@host``), address, endpoint.
    """
    if kind == "include":
        yield from (part.partition(":")[0].strip() for part in value.split("@"))
        return
    for host in map(str.strip, _HOSTS.findall(value) if kind == "hosts" else [value]):
        yield host if _LOCAL.fullmatch(host) else re.sub(r"(?::\d*|\*\d+)$", "", host)


def is_foreign(host: str) -> bool:
    """Whether this is the name of a host that is not certainly one of the job's."""
    return bool(host) and not (is_computed(host) or is_local(host) or _RELATIVE.match(host))


def is_local(host: str) -> bool:
    """Whether this means the local host."""
    return bool(_LOCAL.fullmatch(host))


# --- The options of launchers that users start themselves, and the meaning of each


def by_kind(**words: str) -> dict[str, str]:
    """Return the kind of each name: the names of a kind are the words of its text."""
    return {name: kind for kind, text in words.items() for name in text.split()}


MPI: Final = by_kind(
    np="n np c",
    per_node="npernode N ppn perhost",
    each="pernode bynode",
    hostfile="hostfile machinefile default-hostfile f",
    hosts="H host hosts",
    variable="x",
    mca="mca gmca",
    genv="genv env",
    names="genvlist",
    folder="wdir wd",
    map="map-by",
    value="bind-to rank-by iface prefix cpus-per-proc output-filename bootstrap launcher rmk",
    flag="""allow-run-as-root oversubscribe nooversubscribe report-bindings display-map display-allocation
        show-progress tag-output timestamp-output v verbose q quiet l prepend-rank genvall envall byslot
        bind-to-none bind-to-core nolocal use-hwthread-cpus""",
)
"""The kind of each option of mpirun, without leading dashes."""

HOROVOD: Final = by_kind(
    np="np num-proc n",
    hosts="hosts H",
    hostfile="hostfile host-discovery-script",
    elastic="min-np min-num-proc max-np max-num-proc reset-limit",
    value="""ssh-port p ssh-identity-file i start-timeout network-interfaces network-interface elastic-timeout
        slots-per-host slots output-filename""",
    pair="blacklist-cooldown-range",
    flag="verbose disable-cache prefix-output-with-timestamp prefix-timestamp jsrun",
    controller="gloo mpi",
    knob="""fusion-threshold-mb cycle-time-ms cache-capacity autotune-log-file autotune-warmup-samples
        autotune-steps-per-sample autotune-bayes-opt-max-samples autotune-gaussian-process-noise
        timeline-filename stall-check-warning-time-seconds stall-check-shutdown-time-seconds num-nccl-streams
        thread-affinity gloo-timeout-seconds log-level""",
    switch="""hierarchical-allreduce no-hierarchical-allreduce
        hierarchical-allgather no-hierarchical-allgather
        torus-allreduce no-torus-allreduce autotune no-autotune timeline-mark-cycles no-timeline-mark-cycles
        stall-check no-stall-check mpi-threads-disable no-mpi-threads-disable log-hide-timestamp
        no-log-hide-timestamp tcp log-with-timestamp log-without-timestamp""",
)
"""``knob`` and ``switch`` are settings of Horovod itself, with a value and without."""

TORCH: Final = by_kind(
    per_node="nproc-per-node",
    nodes="nnodes",
    restarts="max-restarts",
    value="""node-rank master-addr master-port rdzv-backend rdzv-endpoint rdzv-id rdzv-conf local-addr
        start-method role log-dir redirects r tee t monitor-interval local-ranks-filter event-log-handler
        logs-specs numa-binding signals-to-handle""",
    flag="standalone",
)

_MPIRUN: Final = MPI | by_kind(
    np="np ntasks num-proc n",
    flag="""merge-stderr-to-stdout do-not-launch use-hwthread-cpus quiet novm noprefix debug enable-recovery
        forward-signals allow-run-as-root print-rank-map disable-auto-cleanup info display-topo
        display-devel-map bind-to-socket cpu-set""",
    map="map",
    value="""npersocket mca-param-file am tune rf rankfile app configfile timeout path report-uri stdin
        xml-file preload-files tmpdir s rr ib order-nodes localroot gtool trace check_mpi env-list cpu-bind
        depth d""",
    mca="pmca prtemca pmixmca",
)
_HOROVODRUN: Final = HOROVOD | by_kind(
    discovery="host-discovery-script",
    flag="check-build cb version v nics",
    value="config-file mpi-args binding-args",
)
_TORCHRUN: Final = TORCH | by_kind(
    program="m module no-python",
    rank="node-rank",
    address="master-addr",
    port="master-port",
    endpoint="rdzv-endpoint",
    id="rdzv-id",
    backend="rdzv-backend",
    alone="standalone",
    flag="use-env run-path",
)
_ACCELERATE: Final = by_kind(
    program="m module no-python",
    np="num-processes",
    nodes="num-machines",
    rank="machine-rank",
    address="main-process-ip",
    port="main-process-port",
    hostfile="deepspeed-hostfile",
    backend="rdzv-backend",
    alone="standalone",
    flag="""cpu multi-gpu tpu ipex use-xpu use-deepspeed use-fsdp use-megatron-lm same-network q quiet debug
        use-parallelism-config enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic""",
)
_FABRIC: Final = by_kind(
    nodes="num-nodes", per_node="devices", rank="node-rank", address="main-address", port="main-port"
)
_MSRUN: Final = by_kind(
    np="worker-num", per_node="local-worker-num", rank="node-rank", address="master-addr", port="master-port"
)
_COMPOSER: Final = by_kind(
    per_node="n nproc",
    np="world-size",
    rank="node-rank",
    address="master-addr",
    port="master-port",
    program="m module-mode c command-mode",
    flag="v verbose",
)
_PADDLE: Final = by_kind(
    program="m module no-python",
    endpoint="master",
    hosts="ips",
    nodes="nnodes",
    rank="rank",
    per_node="nproc-per-node",
)
_DEEPSPEED: Final = by_kind(
    hostfile="H hostfile",
    include="i include e exclude",
    nodes="num-nodes",
    per_node="num-gpus",
    rank="node-rank",
    address="master-addr",
    port="master-port",
    program="no-python module",
    every="no-ssh",
    flag="no-local-rank save-pid force-multi bind-cores-to-rank no-ssh-check elastic-training",
)
_COLOSSALAI: Final = by_kind(
    hosts="H host",
    hostfile="hostfile",
    include="include exclude",
    nodes="num-nodes",
    per_node="nproc-per-node",
    address="master-addr",
    port="master-port",
    program="m",
)
_SRUN: Final = by_kind(
    np="n ntasks",
    per_node="ntasks-per-node",
    nodes="N nodes",
    hosts="w nodelist",
    hostfile="F nodefile",
    flag="""l label u unbuffered v verbose Q quiet exclusive overlap exact pty O overcommit s oversubscribe k
        no-kill E preserve-env K kill-on-bad-exit contiguous spread-job whole immediate I Z no-allocate X
        disable-status""",
)
_FLUX: Final = by_kind(
    np="n ntasks",
    per_node="tasks-per-node",
    nodes="N nodes",
    flag="exclusive x l label-io v verbose quiet",
)
_APRUN: Final = by_kind(np="n", per_node="N", hosts="L", hostfile="l", flag="b q")
_MPIRUN_RSH: Final = by_kind(
    np="np n", hostfile="hostfile", flag="ssh rsh export export-all legacy v debug xterm"
)

MPI_LAUNCHERS: Final = (
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "prterun", "mpirun.openmpi", "mpirun.mpich",
    "mpiexec.openmpi", "mpiexec.mpich",
)  # fmt: skip
"""The launchers of MPI libraries, which find a job's nodes themselves if built for the scheduler."""

TORCH_LAUNCHERS: Final = (
    "torchrun", "torchrun_jsc", "torch.distributed.launch", "torch.distributed.run", "tune run",
)  # fmt: skip
"""Launchers with the options of torchrun."""

ONCE: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys((*MPI_LAUNCHERS, "mpiexec_mpt"), _MPIRUN),
    "mpirun_rsh": _MPIRUN_RSH,
    "horovodrun": _HOROVODRUN,
    "deepspeed": _DEEPSPEED,
    "colossalai run": _COLOSSALAI,
    **dict.fromkeys(("srun", "ccc_mprun"), _SRUN),
    **dict.fromkeys(("flux run", "flux mini run"), _FLUX),
    "aprun": _APRUN,
    "jsrun": {},
    "lrun": {},
    "ibrun": {},
    "likwid-mpirun": {},
}
"""Launchers that start all processes of a job, and the kind of each option, with `-` for `_`."""

_OF_NPROC: Final = by_kind(
    nodes="NNODES", rank="NODE_RANK", address="MASTER_ADDR", port="MASTER_PORT", per_node="NPROC_PER_NODE"
)
IF_TOLD: Final = ("swift sft", "swift pt", "swift rlhf", "xtuner train")
"""Programs that start torchrun where NNODES or NPROC_PER_NODE is set, else one process
(https://github.com/modelscope/ms-swift, swift/cli/main.py; https://github.com/InternLM/xtuner,
xtuner/entry_point.py)."""
VARIABLES: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(TORCH_LAUNCHERS, by_kind(
        nodes="PET_NNODES", rank="PET_NODE_RANK", address="PET_MASTER_ADDR", endpoint="PET_RDZV_ENDPOINT",
        backend="PET_RDZV_BACKEND", alone="PET_STANDALONE", per_node="PET_NPROC_PER_NODE",
    )),
    **dict.fromkeys(("llamafactory-cli train", *IF_TOLD), _OF_NPROC),
    "xtuner train": by_kind(
        nodes="NNODES", rank="NODE_RANK", address="ADDR", port="PORT", per_node="NPROC_PER_NODE"
    ),
    "composer": by_kind(np="WORLD_SIZE", rank="NODE_RANK", address="MASTER_ADDR", port="MASTER_PORT"),
    "bpslaunch": by_kind(
        nodes="DMLC_NUM_WORKER", rank="DMLC_WORKER_ID", address="DMLC_PS_ROOT_URI", port="DMLC_PS_ROOT_PORT"
    ),
}  # fmt: skip
"""Variables that are options of a launcher, and the kind of each (https://github.com/hiyouga/LLaMA-Factory,
src/llamafactory/cli.py; https://github.com/bytedance/byteps, docs/env.md)."""

PER_NODE: Final[Mapping[str, Mapping[str, str]]] = {
    **{program: {} for program in VARIABLES},
    "axolotl train": {},
    **dict.fromkeys(TORCH_LAUNCHERS, _TORCHRUN),
    "accelerate launch": _ACCELERATE,
    "fabric run": _FABRIC,
    "msrun": _MSRUN,
    "composer": _COMPOSER,
    "paddle.distributed.launch": _PADDLE,
}
"""Launchers that start the processes of one node each, as `ONCE`."""

COUNTS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("flag", "switch", "each", "controller", "alone", "every", "program"), 0),
    **dict.fromkeys(("mca", "pair"), 2),
}
"""How many values an option of a kind has, if not one."""
_PROGRAM: Final = re.compile(r"(?:.*/)?python[0-9.]*|bash|sh|.*\.(?:py|sh)|\./.*")


def is_program(word: str) -> bool:
    """Whether a word looks like a program, or like `-m`, which begins one."""
    return bool(_PROGRAM.fullmatch(word)) or word in ("-m", "--module")


class Option(NamedTuple):
    """An option of a launcher, in the words of its line."""

    name: str
    kind: str
    """Its meaning, a key of the launcher's table; empty if it is unknown."""
    value: str
    start: int
    end: int
    sure: bool = True
    """Whether it is certainly an option, and not the value of one before it."""
    glued: bool = False
    """Whether its value is in the word of its name."""

    @property
    def lacks_value(self) -> bool:
        """Whether the line ends before its last value."""
        count = 2 - ("=" in self.value) if self.kind == "genv" else COUNTS.get(self.kind, 1)
        return not self.glued and self.end - self.start <= count


def read_options(program: str, words: Sequence[str]) -> tuple[tuple[Option, ...], int]:
    """Return the options of a launcher, whose unquoted words these are, and where its program begins.

    An unknown option may have a value or none, so that all options after it are uncertain.
    """
    table = ONCE.get(program) or PER_NODE.get(program, {})
    found: list[Option] = []
    at, sure = 0, True
    while at < len(words) and words[at].startswith("-"):
        option = _option(table, words, at, sure=sure)
        if option.kind == "program" and not "".join(words[at + 1 : at + 2]).startswith("-"):
            break
        sure = sure and (bool(option.kind) or option.end == at + 1)
        found.append(option)
        at = option.end
    return tuple(found), at


def names_that_begin(table: Mapping[str, str], name: str) -> list[str]:
    """Return the options that an abbreviated name may mean, for launchers that read it so (argparse)."""
    if name in table or not any(table is own for own in (HOROVOD, TORCH, _HOROVODRUN, _TORCHRUN)):
        return []
    return [known for known in table if known.startswith(name)]


def _option(table: Mapping[str, str], words: Sequence[str], at: int, *, sure: bool) -> Option:
    name, kind, glued = _named(table, words[at])
    if glued is not None:
        return Option(name, kind, glued, at, at + 1, sure, glued=True)
    following = words[at + 1 :]
    count = COUNTS.get(kind, 1)
    if not kind:
        count = int(
            bool(following) and not following[0].startswith("-") and not _PROGRAM.fullmatch(following[0])
        )
    elif kind == "genv":
        count = 1 if following and "=" in following[0] else 2
    return Option(name, kind, " ".join(following[:count]), at, min(at + 1 + count, len(words)), sure)


def _named(table: Mapping[str, str], word: str) -> tuple[str, str, str | None]:
    """Return an option's name, its kind, and the value that is attached to it."""
    written, equals, value = word.partition("=")
    name = written.lstrip("-")
    known = name if name in table else name.replace("_", "-")
    if word.startswith("--") and len(meant := names_that_begin(table, known)) == 1:
        known = meant[0]
    if known in table or equals:
        return known, table.get(known, ""), value if equals else None
    short = next((key for key in ("np", name[:1]) if name.startswith(key) and key in table), "")
    if not word.startswith("--") and short and COUNTS.get(table[short], 1) == 1:
        behind = name.removeprefix(short)
        if table[short] in ("hosts", "hostfile") or behind.isdecimal():
            return short, table[short], behind
    return known, "", None
