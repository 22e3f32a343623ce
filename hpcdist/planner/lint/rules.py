"""Runs all rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.plan.values import Variable, Word
from hpcdist.planner.lint.finding import (
    GUIDE,
    INTERFACES,
    Entry,
    LintContext,
    LintFinding,
    differing_values,
    finding_on,
    parts,
    read,
)
from hpcdist.planner.lint.knowledge import KNOWN, OF_RCCL, entry_of, family_of, near, spelled, with_prefix
from hpcdist.planner.lint.nccl_others import MISTAKEN, OTHER_READERS, VENDORS
from hpcdist.planner.lint.other_libraries import CXI_SOURCE, MPI_SOURCE, OFI_SOURCE, SOURCE, UCX_SOURCE

# --- Rules about combinations of variables, and of variables with scheduler and launcher options

Values = Mapping[str, Variable]
"""The variables whose values are known before the job, by name."""

_HPE: Final = "github.com/HewlettPackard/shs-ccl-docs @ 438fcce"
_LOCAL: Final = re.compile(r"=?(?:lo|docker\d*|virbr\d*)")
"""Interfaces within a host."""
_GET_IS_OFF: Final = ("disable_rdzv_get", "rdzv_get_en=0")
_SOCKETS: Final = 64
_GPU_MEMORY: Final = {"nccl": ("cuda", "gdr_copy"), "rccl": ("rocm",)}
"""UCX's transports for the memory of GPUs, by the library of their vendor."""
_LIBFABRIC: Final = frozenset({"aws libfabric", "libfabric", "ofi"})
_PROVIDERS: Final = {"slingshot": ("cxi", "lnx"), "efa": ("efa",)}
_ORDERED: Final = (
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS", GUIDE),
    ("OFI_NCCL_RDMA_MIN_POSTED_EAGER_BUFFERS", "OFI_NCCL_RDMA_MAX_POSTED_EAGER_BUFFERS", OFI_SOURCE),
    ("OFI_NCCL_RDMA_MIN_POSTED_CONTROL_BUFFERS", "OFI_NCCL_RDMA_MAX_POSTED_CONTROL_BUFFERS", OFI_SOURCE),
)


def combination_findings(values: Values, context: LintContext) -> Iterator[LintFinding]:
    """Yield the findings on variables that contradict each other."""
    yield from _local_interfaces(values, context)
    yield from _sockets(values)
    yield from _order(values)
    yield from _lists(values, context)
    yield from _network(values, context)
    yield from _provider(values, context)
    yield from _rendezvous(values, context)
    yield from _transports(values, context)
    yield from _only_with(values)


def _number(values: Values, name: str) -> int | None:
    return read(values[name].value)[0] if name in values else None


def _local_interfaces(values: Values, context: LintContext) -> Iterator[LintFinding]:
    for name in INTERFACES:
        value = values[name].value if name in values else ""
        if (context.nodes or 0) > 1 and _LOCAL.fullmatch(value):
            happens = f"{value} reaches no other node, and the job has {context.nodes}"
            hint = "remove it, or write the interface of the network"
            yield finding_on(values[name], happens, hint, f"{GUIDE}#nccl-socket-ifname")


def _sockets(values: Values) -> Iterator[LintFinding]:
    threads, each = _number(values, "NCCL_SOCKET_NTHREADS"), _number(values, "NCCL_NSOCKS_PERTHREAD")
    if threads and each and threads > 0 and threads * each > _SOCKETS:
        happens = (
            f"{threads} threads (NCCL_SOCKET_NTHREADS) with {each} sockets each are {threads * each}; "
            f"NCCL takes {_SOCKETS} at most and lowers this to {_SOCKETS // threads}"
        )
        source = f"{GUIDE}#nccl-nsocks-perthread"
        yield finding_on(
            values["NCCL_NSOCKS_PERTHREAD"], happens, f"write {_SOCKETS // threads} or less", source
        )


def _order(values: Values) -> Iterator[LintFinding]:
    for low, high, source in _ORDERED:
        least, most = _number(values, low), _number(values, high)
        if least is not None and most is not None and least > most:
            yield finding_on(values[low], f"it is above {high}={most}", f"write {most} or less", source)


def _lists(values: Values, context: LintContext) -> Iterator[LintFinding]:
    algorithm = values.get("NCCL_ALGO")
    if algorithm and context.library != "rccl" and _is_right(algorithm):
        whole = ";".join(_with_ring(part) for part in algorithm.value.split(";"))
        if whole != algorithm.value:
            happens = "where none of these works NCCL ends with an error: since 2.24 it falls back to no ring"
            hint = f"write {whole}, or exclude what you do not want by ^"
            yield finding_on(algorithm, happens, hint, f"{GUIDE}#nccl-algo")
    protocol = values.get("NCCL_PROTO")
    if (
        protocol
        and _is_right(protocol)
        and any("ll128" in part.lower().split(",") for part in parts(protocol.value))
    ):
        happens = (
            "LL128 on a platform that does not support it corrupts data, and NCCL turns it on where it does"
        )
        hint = "remove it, or exclude a protocol by ^, such as ^LL128"
        yield finding_on(protocol, happens, hint, f"{GUIDE}#nccl-proto")


def _is_right(variable: Variable) -> bool:
    return KNOWN[variable.name].kind.wrong(variable.value) is None


def _with_ring(part: str) -> str:
    words = part.rpartition(":")[2]
    return (
        part if not words or words.startswith("^") or "ring" in words.lower().split(",") else f"{part},Ring"
    )


def _network(values: Values, context: LintContext) -> Iterator[LintFinding]:
    net = values.get("NCCL_NET")
    if net is None:
        return
    name, source = net.value.lower(), f"{GUIDE}#nccl-net"
    plugin = values.get("NCCL_NET_PLUGIN")
    if name in _LIBFABRIC and plugin and plugin.value == "none":
        happens = (
            "NCCL_NET_PLUGIN=none forbids the plug-in that brings this network, so NCCL ends with an error"
        )
        yield finding_on(net, happens, "remove one of the two", source)
    elif name in _LIBFABRIC and context.network == "slingshot" and context.nodes == 1:
        happens = (
            "on one node of Slingshot it is slow, or fails: Slurm gives such jobs no network of their own"
        )
        yield finding_on(net, happens, "set it for several nodes only", _HPE)
    elif name in _LIBFABRIC and not plugin and net.origin.kind != "site":
        happens = "NCCL ends with an error where it finds no plug-in for it (libnccl-net.so, librccl-net.so)"
        hint = "load its module, or name its file by NCCL_NET_PLUGIN"
        yield finding_on(net, happens, hint, source, "note")
    elif name == "ib" and context.network in ("slingshot", "efa"):
        happens = "this network has no InfiniBand verbs for NCCL, so it ends with an error"
        yield finding_on(net, happens, "remove it", source)


def _provider(values: Values, context: LintContext) -> Iterator[LintFinding]:
    provider = values.get("FI_PROVIDER")
    right = _PROVIDERS.get(context.network or "")
    if provider is None or right is None:
        return
    excludes = provider.value.startswith("^")
    if any(name in provider.value for name in right) == excludes:
        happens = f"it leaves libfabric without {right[0]}, the provider of this network"
        yield finding_on(provider, happens, f"remove it, or write {right[0]}", SOURCE)


def _rendezvous(values: Values, context: LintContext) -> Iterator[LintFinding]:
    if context.words is None or context.network not in (None, "slingshot"):
        return
    counting = {_flag(word): word for word in context.words}.values()  # the last of a flag wins
    off = next((word for word in counting if any(text in word.text for text in _GET_IS_OFF)), None)
    protocol = values.get("FI_CXI_RDZV_PROTO")
    alternative = protocol is not None and protocol.value in ("alt_read", "alt-read")
    if protocol and alternative and off is None:
        happens = "it needs the driver's get protocol off, and no directive does that"
        hint = (
            "add --network=disable_rdzv_get (Slurm), --disable_rdzv_get (PBS) or "
            "--setattr=rdzv_get_en=0 (Flux)"
        )
        yield finding_on(protocol, happens, hint, _HPE)
    elif off and not alternative:
        happens = f"{off.text} turns the driver's get protocol off, and no other is chosen"
        write = "set FI_CXI_RDZV_PROTO=alt_read as well, or remove it"
        yield LintFinding(
            "FI_CXI_RDZV_PROTO",
            None if protocol is None else protocol.value,
            off.origin,
            happens,
            write,
            _HPE,
        )


def _transports(values: Values, context: LintContext) -> Iterator[LintFinding]:
    memory = _GPU_MEMORY.get(context.library or "")
    chosen = values.get("UCX_TLS")
    if chosen is None or memory is None or context.network == "slingshot":
        return
    if not chosen.value.startswith("^") and not any(word in chosen.value for word in (*memory, "all")):
        happens = f"it leaves out {memory[0]}, so MPI over UCX cannot send from the memory of GPUs"
        yield finding_on(chosen, happens, f"write {chosen.value},{memory[0]}", UCX_SOURCE)


def _flag(word: Word) -> str:
    """Return the flag if only its last use counts (Slurm's ``--network``), else the whole word."""
    return "--network" if word.text.startswith(("--network=", "--network ")) else word.text


def _only_with(values: Values) -> Iterator[LintFinding]:
    mode = values.get("FI_CXI_RX_MATCH_MODE")
    for name, variable in values.items():
        if name.startswith("FI_CXI_HYBRID_") and mode and mode.value != "hybrid":
            happens = f"FI_CXI_RX_MATCH_MODE={mode.value} makes libfabric ignore it"
            yield finding_on(variable, happens, "remove it, or write FI_CXI_RX_MATCH_MODE=hybrid", CXI_SOURCE)
    both = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude")
    if both[0] in values and both[1] in values:
        happens = f"Open MPI takes either this or {both[0]}, not both"
        yield finding_on(values[both[1]], happens, "remove one", _MPI_TCP)
    elif (
        both[1] in values
        and "lo" not in values[both[1]].value.split(",")
        and "127." not in values[both[1]].value
    ):
        happens = "it replaces Open MPI's own list, so the loopback interface is used between nodes"
        yield finding_on(values[both[1]], happens, f"write {values[both[1]].value},lo", _MPI_TCP)


_MPI_TCP: Final = "https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html"


# --- Rules about a single variable: its name, its value, and whether this machine uses it

_ONECCL: Final = "github.com/argonne-lcf/user-guides @ 7d04a3f9, docs/aurora"
_RCCL: Final = "https://rocm.docs.amd.com/projects/rccl/en/latest/api-reference/env-variables.html"
_CSCS: Final = "docs.cscs.ch, communication"
_AWS: Final = "github.com/aws-samples/awsome-distributed-training @ 7217859f, efa-cheatsheet.md"
_RDMA: Final = f"{GUIDE}#nccl-net"


class _Foreign(NamedTuple):
    """Names that have no effect on some networks, or with some libraries."""

    prefix: str
    here: tuple[str, ...]
    happens: str
    source: str


_FOREIGN: Final = (
    _Foreign(
        "FI_CXI_",
        ("infiniband", "omni-path", "efa", "gpudirect-tcp", "roce", "ethernet"),
        "it is for Slingshot; the network here is {}, so it has no effect",
        "https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html",
    ),
    _Foreign(
        "FI_EFA_",
        ("infiniband", "omni-path", "slingshot", "gpudirect-tcp", "roce", "ethernet"),
        "it is for EFA; the network here is {}, so it has no effect",
        "https://ofiwg.github.io/libfabric/main/man/fi_efa.7.html",
    ),
    _Foreign(
        "NCCL_IB_", ("slingshot", "efa"),
        "it is for InfiniBand verbs; NCCL reaches {} by a plug-in, so it has no effect",
        _RDMA,
    ),
    _Foreign("OFI_NCCL_", ("infiniband", "roce"),
        "it is for libfabric; NCCL reaches {} by itself, without it", _RDMA),
    _Foreign("RDMAV_", ("efa",), "AWS says never to set it on {}", _AWS),
    _Foreign("UCX_", ("slingshot",), "UCX has no transport for {}, so it has no effect there", _CSCS),
    _Foreign("NCCL_", ("oneccl",), "the GPUs here use {}, which reads no such variable", _ONECCL),
    _Foreign("RCCL_", ("nccl", "oneccl"), "the GPUs here use {}, which reads no such variable", _RCCL),
    _Foreign("CCL_", ("nccl", "rccl"), "the GPUs here use {}, which reads no such variable", _ONECCL),
)  # fmt: skip
_OF_ANY_NETWORK: Final = frozenset(
    ("NCCL_IB_DISABLE", "UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_LOG_LEVEL")
)
"""What centres recommend where it is superfluous, and what UCX does in programs that only link it."""
_NAMES: Final = {
    "slingshot": "Slingshot", "infiniband": "InfiniBand", "omni-path": "Omni-Path", "efa": "EFA",
    "roce": "RoCE",
    "ethernet": "Ethernet", "gpudirect-tcp": "GPUDirect-TCP", "nccl": "NCCL",
    "rccl": "RCCL", "oneccl": "oneCCL",
}  # fmt: skip


def variable_findings(variable: Variable, context: LintContext) -> Iterator[LintFinding]:
    """Yield the findings on one variable; values that bash expands in the job are not checked."""
    entry = entry_of(variable.name, context.library)
    if entry and entry.never:
        yield finding_on(variable, f"never set it by hand: {entry.never}", "remove it", entry.where, "error")
    elif found := _foreign(variable, context):
        yield found
    elif entry is None:
        yield from _unknown(variable, context)
    elif entry.gone:
        instead = f"write {entry.successor} instead" if entry.successor else "remove it"
        yield finding_on(variable, entry.gone, instead, entry.where)
    else:
        yield from _too_new(variable, entry, context)
        yield from _wrong(variable, entry)
        yield from _discouraged(variable, entry)


def _foreign(variable: Variable, context: LintContext) -> LintFinding | None:
    if variable.name in _OF_ANY_NETWORK:
        return None
    for rule in _FOREIGN:
        for what in (context.network, context.library):
            if what in rule.here and variable.name.startswith(rule.prefix):
                return finding_on(variable, rule.happens.format(_NAMES[str(what)]), "remove it", rule.source)
    return None


def _unknown(variable: Variable, context: LintContext) -> Iterator[LintFinding]:
    family = family_of(variable.name)
    name = variable.name
    if meant := spelled(name):
        happens = "names of variables are case-sensitive, so nothing reads it"
        yield finding_on(variable, happens, f"write {meant}", KNOWN[meant].where)
        return
    if family is None and (found := with_prefix(name)):
        happens = f"{found[1].program} reads no such variable"
        yield finding_on(variable, happens, f"write {found[0]}", found[1].source)
        return
    if family is None or name.startswith(OTHER_READERS) or name in VENDORS:
        return
    certain = family.all_known and not (family.prefix == "NCCL_" and context.library == "rccl")
    if name in MISTAKEN:
        happens = "neither NCCL nor PyTorch reads it, so it has no effect"
        yield finding_on(variable, happens, MISTAKEN[name], family.source)
    elif meant := near(name, family, context.library):
        program, source = (OF_RCCL if meant.startswith("RCCL_") else family)[1:3]
        yield finding_on(variable, f"{program} reads no such variable", f"write {meant}", source)
    elif certain:
        happens = f"{family.program} reads no such variable, so it has no effect"
        yield finding_on(variable, happens, "remove it", family.source)
    elif family.prefix == "UCX_" and variable.origin.kind != "site":
        happens = "hpcdist does not know it; UCX itself warns at startup of names that it does not read"
        yield finding_on(variable, happens, "check whether `ucx_info -f` lists it", family.source, "note")


def _too_new(variable: Variable, entry: Entry, context: LintContext) -> Iterator[LintFinding]:
    have = context.versions.get("nccl")
    if have and entry.since and have < tuple(map(int, entry.since.split("."))):
        here = ".".join(map(str, have))
        happens = f"NCCL reads it since {entry.since}, and the module's is {here}: it has no effect there"
        yield finding_on(variable, happens, "remove it, or load a newer NCCL", entry.where, "note")


def _wrong(variable: Variable, entry: Entry) -> Iterator[LintFinding]:
    if variable.shell:
        return
    for value in dict.fromkeys((variable.value, variable.otherwise)):
        wrong = entry.kind.wrong(value) if value is not None else None
        if wrong:
            yield finding_on(variable, *wrong, entry.where, value=value or "")


def _discouraged(variable: Variable, entry: Entry) -> Iterator[LintFinding]:
    """Yield a note on what is discouraged, except in a site's own file, which follows its centre."""
    if variable.origin.kind == "site":
        return
    if entry.use == "debugging":
        happens = "NVIDIA documents it as a work-around only, to be removed when the fault is fixed"
        yield finding_on(variable, happens, "add a comment why, and remove it then", entry.where, "note")
    elif entry.use == "diagnosis" and variable.value.upper() not in ("VERSION", "WARN"):
        yield finding_on(variable, "it is for debugging", "remove it afterwards", entry.where, "note")
    elif entry.use == "undocumented":
        happens = "NCCL reads it and documents it nowhere, so the next version may not"
        yield finding_on(variable, happens, "remove it, unless its vendor advised it", entry.where, "note")


# --- Rules about Open MPI's parameters, by its major version; none apply where that is unknown
#
# Component lists of the tags v4.1.6, v5.0.9 and v5.0.10; ``docs/mca.rst`` of open-mpi/ompi @ 8efebee745.

_OF_PRRTE: Final = ("orte_", "plm_", "ras_", "rmaps_", "odls_", "ess_", "iof_", "hwloc_base_binding_policy")
"""Prefixes of parameters that moved from Open MPI to PRRTE, its launcher, in 5.0."""
_PRRTE: Final = 5
_NO_HCOLL: Final = 6


def open_mpi_findings(variable: Variable, major: int) -> Iterator[LintFinding]:
    """Yield what this version of Open MPI does not read."""
    name = variable.name.removeprefix("OMPI_MCA_")
    words = variable.value.removeprefix("^").split(",")
    if variable.name.startswith(("PRTE_MCA_", "PMIX_MCA_")):
        if major < _PRRTE:
            happens = f"only Open MPI 5 and later read it, and this is {major}"
            yield finding_on(
                variable, happens, f"write OMPI_MCA_{variable.name.partition('_MCA_')[2]}", MPI_SOURCE
            )
    elif not variable.name.startswith("OMPI_MCA_"):
        return
    elif name.startswith(_OF_PRRTE) and major >= _PRRTE:
        happens = f"since 5.0 it is a parameter of PRRTE, and this is Open MPI {major}"
        yield finding_on(variable, happens, f"write PRTE_MCA_{name.removeprefix('orte_')}", MPI_SOURCE)
    elif name == "btl" and major >= _PRRTE and (gone := {"openib", "vader"} & set(words)):
        instead = "remove openib: UCX does its work" if "openib" in gone else "write sm instead of vader"
        yield finding_on(
            variable, f"Open MPI {major} has no {' and no '.join(sorted(gone))}", instead, MPI_SOURCE
        )
    elif name == "btl" and major < _PRRTE and "sm" in words and not variable.value.startswith("^"):
        yield finding_on(
            variable, f"in Open MPI {major} shared memory is `vader`", "write vader instead of sm", MPI_SOURCE
        )
    elif name == "coll_hcoll_enable" and major >= _NO_HCOLL:
        yield finding_on(variable, f"Open MPI {major} has no hcoll any more", "remove it", MPI_SOURCE)


# --- Runs all rules


def all_findings(variables: Sequence[Variable], context: LintContext) -> Iterator[LintFinding]:
    """Yield the findings on variables: each by itself, then in combination."""
    major = context.versions.get("openmpi")
    for variable in variables:
        yield from variable_findings(variable, context)
        if major and not variable.shell:
            yield from open_mpi_findings(variable, major[0])
    certain = {item.name: item for item in variables if not item.shell and not item.is_late}
    yield from combination_findings(certain, context)
    yield from differing_values(certain, context)
