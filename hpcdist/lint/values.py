"""Rules about a single variable: its name, its value, and whether this machine uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.lint.entry import GUIDE, Entry
from hpcdist.lint.finding import Finding, LintContext, finding_on
from hpcdist.lint.knowledge import KNOWN, OF_RCCL, entry_of, family_of, near, spelled, with_prefix
from hpcdist.lint.nccl_others import MISTAKEN, OTHER_READERS, VENDORS
from hpcdist.plan.values import Variable

_ONECCL: Final = "github.com/argonne-lcf/user-guides @ 7d04a3f9, docs/aurora"
_RCCL: Final = "https://rocm.docs.amd.com/projects/rccl/en/latest/api-reference/env-variables.html"
_CSCS: Final = "docs.cscs.ch, communication"
_AWS: Final = "github.com/aws-samples/awsome-distributed-training @ 7217859f, efa-cheatsheet.md"
_RDMA: Final = f"{GUIDE}#nccl-net"


class _Foreign(NamedTuple):
    """Names that have no effect on some networks, or beside some libraries."""

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


def variable_findings(variable: Variable, context: LintContext) -> Iterator[Finding]:
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


def _foreign(variable: Variable, context: LintContext) -> Finding | None:
    if variable.name in _OF_ANY_NETWORK:
        return None
    for rule in _FOREIGN:
        for what in (context.network, context.library):
            if what in rule.here and variable.name.startswith(rule.prefix):
                return finding_on(variable, rule.happens.format(_NAMES[str(what)]), "remove it", rule.source)
    return None


def _unknown(variable: Variable, context: LintContext) -> Iterator[Finding]:
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


def _too_new(variable: Variable, entry: Entry, context: LintContext) -> Iterator[Finding]:
    have = context.versions.get("nccl")
    if have and entry.since and have < tuple(map(int, entry.since.split("."))):
        here = ".".join(map(str, have))
        happens = f"NCCL reads it since {entry.since}, and the module's is {here}: it has no effect there"
        yield finding_on(variable, happens, "remove it, or load a newer NCCL", entry.where, "note")


def _wrong(variable: Variable, entry: Entry) -> Iterator[Finding]:
    if variable.shell:
        return
    for value in dict.fromkeys((variable.value, variable.otherwise)):
        wrong = entry.kind.wrong(value) if value is not None else None
        if wrong:
            yield finding_on(variable, *wrong, entry.where, value=value or "")


def _discouraged(variable: Variable, entry: Entry) -> Iterator[Finding]:
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
