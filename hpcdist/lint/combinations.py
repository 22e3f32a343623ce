"""Rules about combinations of variables, and of variables with scheduler and launcher options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.lint.entry import GUIDE
from hpcdist.lint.finding import Finding, LintContext, finding_on
from hpcdist.lint.kinds import parts, read
from hpcdist.lint.knowledge import KNOWN
from hpcdist.lint.libfabric import CXI_SOURCE, SOURCE
from hpcdist.lint.others import OFI_SOURCE, UCX_SOURCE
from hpcdist.plan.values import Variable, Word

Values = Mapping[str, Variable]
"""The variables whose values are known before the job, by name."""

_HPE: Final = "github.com/HewlettPackard/shs-ccl-docs @ 438fcce"
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


def combination_findings(values: Values, context: LintContext) -> Iterator[Finding]:
    """Yield the findings on variables that contradict each other."""
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


def _sockets(values: Values) -> Iterator[Finding]:
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


def _order(values: Values) -> Iterator[Finding]:
    for low, high, source in _ORDERED:
        least, most = _number(values, low), _number(values, high)
        if least is not None and most is not None and least > most:
            yield finding_on(values[low], f"it is above {high}={most}", f"write {most} or less", source)


def _lists(values: Values, context: LintContext) -> Iterator[Finding]:
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


def _network(values: Values, context: LintContext) -> Iterator[Finding]:
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


def _provider(values: Values, context: LintContext) -> Iterator[Finding]:
    provider = values.get("FI_PROVIDER")
    right = _PROVIDERS.get(context.network or "")
    if provider is None or right is None:
        return
    excludes = provider.value.startswith("^")
    if any(name in provider.value for name in right) == excludes:
        happens = f"it leaves libfabric without {right[0]}, the provider of this network"
        yield finding_on(provider, happens, f"remove it, or write {right[0]}", SOURCE)


def _rendezvous(values: Values, context: LintContext) -> Iterator[Finding]:
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
        yield Finding(
            "FI_CXI_RDZV_PROTO",
            None if protocol is None else protocol.value,
            off.origin,
            happens,
            write,
            _HPE,
        )


def _transports(values: Values, context: LintContext) -> Iterator[Finding]:
    memory = _GPU_MEMORY.get(context.library or "")
    chosen = values.get("UCX_TLS")
    if chosen is None or memory is None or context.network == "slingshot":
        return
    if not chosen.value.startswith("^") and not any(word in chosen.value for word in (*memory, "all")):
        happens = f"it leaves out {memory[0]}, so MPI over UCX cannot send from the memory of GPUs"
        yield finding_on(chosen, happens, f"write {chosen.value},{memory[0]}", UCX_SOURCE)


def _flag(word: Word) -> str:
    """Return the flag where its last one counts (Slurm's ``--network``), else the whole word."""
    return "--network" if word.text.startswith(("--network=", "--network ")) else word.text


def _only_with(values: Values) -> Iterator[Finding]:
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
