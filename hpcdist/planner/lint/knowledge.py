"""All known variables by name, and for which prefixes the tables are complete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.base.spelling import closest
from hpcdist.planner.lint import nccl_others, other_libraries
from hpcdist.planner.lint.finding import (
    ANY_INTEGER,
    BOOLEAN,
    BYTES,
    GUIDE,
    POSITIVE,
    TEXT,
    THREE,
    ByFunction,
    Entry,
    Integer,
    Kind,
    Level,
    Listed,
    OneOf,
    TextShape,
    misspelt_prefix,
)

# --- NCCL's documented variables of the section "Debugging": work-arounds, not for scripts that are kept
#
# NVIDIA/nccl @ 5067397c (2026-06-11, NCCL 2.30), ``docs/userguide/source/env.rst``. The findings on the
# ends of a range where the guide gives none is left open.

ALGORITHMS: Final = ("Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT")
PROTOCOLS: Final = ("LL", "LL128", "Simple")

_DISTANCE: Final = Level(("LOC", "PIX", "PXB", "PHB", "SYS"))
_P2P_DISTANCE: Final = Level(("LOC", "NVL", "PIX", "PXB", "PHB", "SYS"))
_THREADS: Final = OneOf(("64", "128", "256", "512"), "documents other numbers and corrects this one")
_CHECK: Final = OneOf(("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"), "documents no such mode")
_LAUNCH: Final = OneOf(("PARALLEL", "GROUP"), "takes any other word for PARALLEL")
_MERGE: Final = OneOf(("ALL", "RAIL"), "documents no such policy")
_ADDRESS: Final = TextShape(
    r"(\[[^\]]+\]|[^\s:]+):[0-9]+|", "HOST:PORT, IPv6 in []", "cannot read the address"
)
_CTAS: Final = Integer(1, 64)
_OLD_CTAS: Final = "since NCCL 2.17 it is deprecated"
_IDENTITY: Final = "it tells NCCL which GPUs share NVLink; a wrong one ends in hangs or wrong connections"

_ROWS: Final = (
    Entry("NCCL_P2P_DISABLE", BOOLEAN),
    Entry("NCCL_P2P_LEVEL", _P2P_DISTANCE, since="2.3.4"),
    Entry("NCCL_P2P_DIRECT_DISABLE", BOOLEAN),
    Entry("NCCL_SHM_DISABLE", BOOLEAN),
    Entry("NCCL_BUFFSIZE", BYTES, "4194304"),
    Entry("NCCL_NTHREADS", _THREADS),
    Entry("NCCL_MAX_NCHANNELS", POSITIVE, since="2.5.0", gone=_OLD_CTAS, successor="NCCL_MAX_CTAS"),
    Entry("NCCL_MIN_NCHANNELS", Integer(1, 32), since="2.5.0", gone=_OLD_CTAS, successor="NCCL_MIN_CTAS"),
    Entry("NCCL_CHECKS_DISABLE", BOOLEAN, "0", "2.0.5", gone="since NCCL 2.2.12 it is deprecated",
          successor="NCCL_CHECK_MODE"),
    Entry("NCCL_CHECK_POINTERS", BOOLEAN, "0", "2.2.12", gone="since NCCL 2.29.7 it is deprecated",
          successor="NCCL_CHECK_MODE"),
    Entry("NCCL_CHECK_MODE", _CHECK, "DEFAULT", "2.29.7"),
    Entry("NCCL_LAUNCH_MODE", _LAUNCH, "PARALLEL", "2.1.0", gone="since NCCL 2.9 it is deprecated"),
    Entry("NCCL_IB_DISABLE", BOOLEAN),
    Entry("NCCL_IB_AR_THRESHOLD", BYTES, "8192", "2.6"),
    Entry("NCCL_IB_OOO_RQ", BOOLEAN, "0", "2.30"),
    Entry("NCCL_IB_QPS_PER_CONNECTION", Integer(1, 128), "1", "2.10"),
    Entry("NCCL_IB_SPLIT_DATA_ON_QPS", BOOLEAN, "0", "2.18"),
    Entry("NCCL_IB_CUDA_SUPPORT", BOOLEAN, gone="NCCL 2.4 removed it and ignores it",
          successor="NCCL_NET_GDR_LEVEL"),
    Entry("NCCL_IB_PCI_RELAXED_ORDERING", THREE, "2", "2.12"),
    Entry("NCCL_IB_ADAPTIVE_ROUTING", BOOLEAN, since="2.16"),
    Entry("NCCL_IB_ECE_ENABLE", BOOLEAN, "1", "2.23"),
    Entry("NCCL_MEM_SYNC_DOMAIN", BOOLEAN, "1", "2.16"),
    Entry("NCCL_CUMEM_ENABLE", BOOLEAN, since="2.18"),
    Entry("NCCL_CUMEM_HOST_ENABLE", BOOLEAN, since="2.23"),
    Entry("NCCL_NET_GDR_LEVEL", _DISTANCE, since="2.3.4"),
    Entry("NCCL_NET_GDR_C2C", BOOLEAN, "1", "2.26"),
    Entry("NCCL_NET_GDR_READ", BOOLEAN),
    Entry("NCCL_NET_SHARED_BUFFERS", BOOLEAN, "1", "2.8"),
    Entry("NCCL_NET_SHARED_COMMS", BOOLEAN, "1", "2.12"),
    Entry("NCCL_IGNORE_NET_MISMATCH", BOOLEAN, "1", "2.30"),
    Entry("NCCL_IGNORE_COLLNET_MISMATCH", BOOLEAN, "0", "2.30"),
    Entry("NCCL_SINGLE_RING_THRESHOLD", BYTES, since="2.1", gone="NCCL 2.3 removed it and ignores it"),
    Entry("NCCL_LL_THRESHOLD", BYTES, "16384", "2.1", gone="NCCL 2.5 removed it and ignores it",
          successor="NCCL_PROTO"),
    Entry("NCCL_TREE_THRESHOLD", BYTES, since="2.4", gone="NCCL 2.5 removed it and ignores it",
          successor="NCCL_ALGO"),
    Entry("NCCL_ALGO", ByFunction(ALGORITHMS), since="2.5"),
    Entry("NCCL_PROTO", ByFunction(PROTOCOLS), since="2.5"),
    Entry("NCCL_NVB_DISABLE", BOOLEAN, "0", "2.11"),
    Entry("NCCL_PXN_DISABLE", BOOLEAN, "0", "2.12"),
    Entry("NCCL_P2P_PXN_LEVEL", THREE, "2", "2.12"),
    Entry("NCCL_PXN_C2C", BOOLEAN, "1", "2.27"),
    Entry("NCCL_RUNTIME_CONNECT", BOOLEAN, "1", "2.22"),
    Entry("NCCL_GRAPH_REGISTER", BOOLEAN, "1", "2.11"),
    Entry("NCCL_LOCAL_REGISTER", BOOLEAN, "1", "2.19"),
    Entry("NCCL_LEGACY_CUDA_REGISTER", BOOLEAN, "0", "2.24"),
    Entry("NCCL_WIN_ENABLE", BOOLEAN, "1", "2.27"),
    Entry("NCCL_SET_STACK_SIZE", BOOLEAN, "0", "2.9"),
    Entry("NCCL_GRAPH_MIXING_SUPPORT", BOOLEAN, "1", "2.13"),
    Entry("NCCL_GRAPH_STREAM_ORDERING", BOOLEAN, "1", "2.30"),
    Entry("NCCL_DMABUF_ENABLE", BOOLEAN, "1", "2.13"),
    Entry("NCCL_P2P_NET_CHUNKSIZE", BYTES, "131072", "2.14"),
    Entry("NCCL_P2P_LL_THRESHOLD", BYTES, "16384", "2.14"),
    Entry("NCCL_ALLOC_P2P_NET_LL_BUFFERS", BOOLEAN, "0", "2.14"),
    Entry("NCCL_COMM_BLOCKING", BOOLEAN, since="2.14"),
    Entry("NCCL_CGA_CLUSTER_SIZE", Integer(0, 8), since="2.16"),
    Entry("NCCL_MAX_CTAS", _CTAS, since="2.17"),
    Entry("NCCL_MIN_CTAS", _CTAS, since="2.17"),
    Entry("NCCL_NVLS_ENABLE", THREE, "2", "2.17"),
    Entry("NCCL_IB_MERGE_NICS", BOOLEAN, "1", "2.20"),
    Entry("NCCL_NET_MERGE_POLICY", _MERGE, "ALL", "2.30.5"),
    Entry("NCCL_MNNVL_ENABLE", THREE, since="2.21"),
    Entry("NCCL_MNNVL_UUID", ANY_INTEGER, since="2.25", never=_IDENTITY),
    Entry("NCCL_MNNVL_CLIQUE_ID", ANY_INTEGER, since="2.25", never=_IDENTITY),
    Entry("NCCL_RAS_ENABLE", BOOLEAN, "1", "2.24"),
    Entry("NCCL_RAS_ADDR", _ADDRESS, "localhost:28028", "2.24"),
    Entry("NCCL_RAS_TIMEOUT_FACTOR", POSITIVE, "1", "2.24"),
    Entry("NCCL_LAUNCH_ORDER_IMPLICIT", BOOLEAN, "0", "2.26"),
    Entry("NCCL_LAUNCH_RACE_FATAL", BOOLEAN, "1", "2.26"),
    Entry("NCCL_IPC_USE_ABSTRACT_SOCKET", BOOLEAN, "1", "2.29"),
    Entry("NCCL_SYM_GIN_KERNELS_ENABLE", BOOLEAN, "1", "2.29"),
)  # fmt: skip

DEBUGGING: Final = tuple(entry._replace(use="debugging") for entry in _ROWS)


# --- NCCL's documented variables of the section "System configuration", which a site file may keep
#
# NVIDIA/nccl @ 5067397c (2026-06-11, NCCL 2.30), ``docs/userguide/source/env.rst``.

LEVELS: Final = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")
SUBSYSTEMS: Final = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS",
    "BOOTSTRAP",
    "REG", "PROFILE", "RAS", "ALL",
)  # fmt: skip

_FAMILY: Final = OneOf(("AF_INET", "AF_INET6"), "ignores it silently and takes any address", exact=True)
_ADDRESSES: Final = r"(?!.*\d\.\d+\.\d+\.\d)"
_INTERFACES: Final = TextShape(
    rf"{_ADDRESSES}\^?=?[^\s,^=;]+(,=?[^\s,^=;]+)*|",
    "interfaces with commas and no blanks between, such as `ib0,ib1`, `=ib0` or `^docker,lo`",
    "takes addresses, blanks and signs in the middle for parts of names and finds no such interface",
)
_WHOLE_NAMES: Final = TextShape(
    rf"{_ADDRESSES}(?!(?:eth|ib|en|eno|ens|enp|hsn|bond|roce)(?:,|$))[^\s,^=;]+(,[^\s,^=;]+)*|",
    "whole names of interfaces with commas between, such as `ib0`",
    "takes whole names of interfaces: no `^`, no `=`, no prefix, no address; all ranks end at the start",
    "Gloo",
)
_GLOO: Final = "https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use"
_HCAS: Final = TextShape(
    r"\^?=?[^\s,^=]+(,[^\s,^=]+)*|",
    "devices with commas and no blanks between, such as `mlx5_0:1,mlx5_1:1` or `^=mlx5_3`",
    "takes blanks and signs in the middle for parts of names and finds no such device",
)
_CIDR: Final = TextShape(r"[0-9a-fA-F.:]+/[0-9]{1,3}|", "a range such as `10.0.0.0/8`", "takes no such range")
_POLICY: Final = TextShape(
    r"(DEFAULT|EFFICIENCY|ZERO)(\|(DEFAULT|EFFICIENCY|ZERO))*|[012]|",
    "DEFAULT, EFFICIENCY or ZERO (several with | between)",
    "documents no such policy",
)
_NETDEVS: Final = TextShape(r"AUTO|ALL|MAX:[1-9][0-9]*|", "AUTO, ALL or MAX:N", "documents no such policy")
_PLUGIN: Final = TextShape(r"\S(.*\S)?|", "a suffix, a file or `none`", "finds no library of that name")
_SLEEP: Final = Integer(1)

SYSTEM: Final = (
    Entry("NCCL_SOCKET_IFNAME", _INTERFACES),
    Entry("NCCL_SOCKET_FAMILY", _FAMILY),
    Entry("NCCL_SOCKET_MAGIC", ANY_INTEGER),
    Entry("NCCL_SOCKET_RETRY_CNT", POSITIVE, "34", "2.24"),
    Entry("NCCL_SOCKET_RETRY_SLEEP_MSEC", _SLEEP, "100", "2.24"),
    Entry("NCCL_SOCKET_POLL_TIMEOUT_MSEC", Integer(0), "0", "2.28"),
    Entry("NCCL_SOCKET_NTHREADS", Integer(1, 16), "1", "2.4.8"),
    Entry("NCCL_NSOCKS_PERTHREAD", POSITIVE, "1", "2.4.8"),
    Entry("NCCL_CROSS_NIC", THREE, "2"),
    Entry("NCCL_IB_HCA", _HCAS),
    Entry("NCCL_IB_TIMEOUT", Integer(0, 31, beyond="the adapter waits without end: 31 is the longest"), "20"),
    Entry("NCCL_IB_RETRY_CNT", Integer(0, 7), "7", "2.1.15"),
    Entry("NCCL_IB_GID_INDEX", Integer(-1), "-1", "2.1.4"),
    Entry("NCCL_IB_ADDR_FAMILY", _FAMILY, "AF_INET", "2.21"),
    Entry("NCCL_IB_ADDR_RANGE", _CIDR, since="2.21"),
    Entry("NCCL_IB_ROCE_VERSION_NUM", ANY_INTEGER, "2", "2.21"),
    Entry("NCCL_IB_SL", ANY_INTEGER, "0", "2.1.4"),
    Entry("NCCL_IB_TC", ANY_INTEGER, "0", "2.1.15"),
    Entry("NCCL_IB_FIFO_TC", ANY_INTEGER, since="2.22.3"),
    Entry("NCCL_IB_RETURN_ASYNC_EVENTS", BOOLEAN, "1", "2.23"),
    Entry("NCCL_OOB_NET_ENABLE", BOOLEAN, since="2.23"),
    Entry("NCCL_OOB_NET_IFNAME", _INTERFACES, since="2.23"),
    Entry("NCCL_UID_STAGGER_THRESHOLD", POSITIVE, "256", "2.23"),
    Entry("NCCL_UID_STAGGER_RATE", POSITIVE, "7000", "2.23"),
    Entry("NCCL_NET", TEXT, since="2.10"),
    Entry("NCCL_NET_PLUGIN", _PLUGIN, since="2.11"),
    Entry("NCCL_TUNER_PLUGIN", _PLUGIN),
    Entry("NCCL_PROFILER_PLUGIN", _PLUGIN),
    Entry("NCCL_ENV_PLUGIN", _PLUGIN, since="2.28"),
    Entry("NCCL_IGNORE_CPU_AFFINITY", BOOLEAN, "0", "2.4.6"),
    Entry("NCCL_CONF_FILE", TEXT, since="2.23"),
    Entry("NCCL_DEBUG", OneOf(LEVELS, "knows no such level and prints nothing"), use="diagnosis"),
    Entry("NCCL_DEBUG_FILE", TEXT, since="2.2.12", use="diagnosis"),
    Entry(
        "NCCL_DEBUG_SUBSYS", Listed(SUBSYSTEMS, "ignores {} silently"), "INIT,BOOTSTRAP,ENV", "2.3.4",
        use="diagnosis",
    ),
    Entry("NCCL_DEBUG_TIMESTAMP_FORMAT", TEXT, "[%F %T] ", "2.26", use="diagnosis"),
    Entry(
        "NCCL_DEBUG_TIMESTAMP_LEVELS", Listed((*LEVELS, "ALL"), "ignores {} silently"), "WARN", "2.26",
        use="diagnosis",
    ),
    Entry("NCCL_COLLNET_ENABLE", BOOLEAN, "0", "2.6"),
    Entry("NCCL_COLLNET_NODE_THRESHOLD", ANY_INTEGER, "2", "2.9.9"),
    Entry("NCCL_CTA_POLICY", _POLICY, "DEFAULT", "2.27"),
    Entry("NCCL_NETDEVS_POLICY", _NETDEVS, "AUTO", "2.28"),
    Entry("NCCL_MULTI_RANK_GPU_ENABLE", BOOLEAN, "0", "2.30"),
    Entry("NCCL_TOPO_FILE", TEXT, since="2.6"),
    Entry("NCCL_TOPO_DUMP_FILE", TEXT, since="2.6", use="diagnosis"),
    Entry("NCCL_SET_THREAD_NAME", BOOLEAN, "0", "2.12"),
)  # fmt: skip


# --- Variables that the libraries, the launcher and the build of Horovod 0.28.1 read
#
# It reads numbers by ``strtol(text, NULL, 10)``, times by ``strtof`` (its
# ``horovod/common/operations.cc``).

SOURCE: Final = "github.com/horovod/horovod @ v0.28.1, horovod/common/common.h"

_NAMES: Final = """
    ADASUM_MPI_CHUNK_SIZE AUTOTUNE AUTOTUNE_BAYES_OPT_MAX_SAMPLES AUTOTUNE_GAUSSIAN_PROCESS_NOISE AUTOTUNE_LOG
    AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_WARMUP_SAMPLES BATCH_D2D_MEMCOPIES CACHE_CAPACITY CCL_CACHE CONTROLLER
    CPU_OPERATIONS CYCLE_TIME DISABLE_GROUP_FUSION DISABLE_NVTX_RANGES DYNAMIC_PROCESS_SETS ELASTIC
    ELASTIC_TIMEOUT ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS FUSION_THRESHOLD GLOO_IFACE GLOO_RENDEZVOUS_ADDR
    GLOO_RENDEZVOUS_PORT GLOO_TIMEOUT_SECONDS HIERARCHICAL_ALLGATHER HIERARCHICAL_ALLREDUCE HOSTNAME
    LOG_HIDE_TIME LOG_LEVEL MPI_THREADS_DISABLE NUM_NCCL_STREAMS SECRET_KEY STALL_CHECK_DISABLE
    STALL_CHECK_TIME_SECONDS STALL_SHUTDOWN_TIME_SECONDS START_TIMEOUT THREAD_AFFINITY TIMELINE
    TIMELINE_MARK_CYCLES TORUS_ALLREDUCE
"""

_LAUNCH_AND_BUILD: Final = """
    ALLOW_MIXED_GPU_IMPL BUILD_ARCH_FLAGS BUILD_CUDA_CC_LIST CROSS_RANK CROSS_SIZE CUDA_HOME CUDA_INCLUDE
    CUDA_LIB DEBUG GPU GPU_ALLGATHER GPU_ALLREDUCE GPU_ALLTOALL GPU_BROADCAST GPU_OPERATIONS GPU_REDUCESCATTER
    LOCAL_RANK LOCAL_SIZE MPICXX_SHOW NCCL_HOME NCCL_INCLUDE NCCL_LIB NCCL_LINK RANK ROCM_HOME
    SIZE SKIP_COMPILE SPARK_PYTHONPATH SPARK_START_TIMEOUT SPARK_USE_LOCAL_RANK_GPU_INDEX SPARK_WORK_DIR
    WITHOUT_GLOO WITHOUT_MPI WITHOUT_MXNET WITHOUT_PYTORCH WITHOUT_TENSORFLOW
    WITH_GLOO WITH_MPI WITH_MXNET WITH_PYTORCH WITH_TENSORFLOW
"""
"""What its launchers set, and what its build reads."""

_SWITCHES: Final = """
    AUTOTUNE BATCH_D2D_MEMCOPIES DISABLE_GROUP_FUSION ENABLE_ASYNC_COMPLETION HIERARCHICAL_ALLGATHER
    HIERARCHICAL_ALLREDUCE MPI_THREADS_DISABLE STALL_CHECK_DISABLE TORUS_ALLREDUCE
"""
"""A number above 0 switches them on; ``true`` is read as 0."""

_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_SWITCHES.split(), Integer(0, program="Horovod", base=10)),
    **dict.fromkeys(("FUSION_THRESHOLD", "CACHE_CAPACITY"), Integer(0, program="Horovod", base=10)),
    "NUM_NCCL_STREAMS": Integer(1, program="Horovod", base=10),
    "CYCLE_TIME": TextShape(
        r"(?:\d+\.?\d*|\.\d+)(?:[eE]-?\d+)?",
        "a number, such as 2.5",
        "reads milliseconds, up to what is no number",
        "Horovod",
    ),
}

HOROVOD: Final = tuple(
    Entry(f"HOROVOD_{name}", _KINDS.get(name, TEXT), source=SOURCE)
    for name in (*_NAMES.split(), *_LAUNCH_AND_BUILD.split())
)


# --- All known variables by name, and for which prefixes the tables are complete

SOCKETS: Final = tuple(
    Entry(name, _WHOLE_NAMES, source=_GLOO) for name in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
)

TABLES: Final[tuple[tuple[Entry, ...], ...]] = (
    SYSTEM,
    DEBUGGING,
    nccl_others.UNDOCUMENTED,
    nccl_others.PYTORCH,
    other_libraries.COMMON,
    other_libraries.CXI,
    other_libraries.EFA,
    other_libraries.OFI,
    other_libraries.RCCL_OWN,
    other_libraries.UCX,
    other_libraries.OPEN_MPI,
    other_libraries.ONECCL,
    HOROVOD,
    SOCKETS,
)
KNOWN: Final = {entry.name: entry for table in TABLES for entry in table}

_BY_CAPITALS: Final = {name.upper(): name for name in KNOWN}


def spelled(name: str) -> str | None:
    """Return the known name that differs from this one by capital and small letters only."""
    meant = _BY_CAPITALS.get(name.upper())
    return None if meant == name else meant


def entry_of(name: str, library: str | None) -> Entry | None:
    """Return what is known of a variable; RCCL reads some of NCCL's in its own way."""
    return (other_libraries.RCCL.get(name) if library == "rccl" else None) or KNOWN.get(name)


class Family(NamedTuple):
    """Names with one prefix, read by one program; ``all_known``: no other name with it is read.

    ``near``: the most wrong letters in a misspelling of a known name.
    """

    prefix: str
    program: str
    source: str
    all_known: bool = False
    near: int = 1


OF_RCCL: Final = Family("RCCL_", "RCCL", other_libraries.RCCL_SOURCE)

FAMILIES: Final = (
    Family("TORCH_NCCL_", "PyTorch", nccl_others.TORCH),
    Family("OFI_NCCL_", "aws-ofi-nccl 1.21", other_libraries.OFI_SOURCE, all_known=True, near=3),
    Family("NCCL_", "NCCL 2.30", GUIDE, all_known=True, near=3),
    OF_RCCL,
    Family("FI_CXI_", "libfabric 2.7", other_libraries.CXI_SOURCE, all_known=True, near=3),
    Family("FI_EFA_", "libfabric 2.7", other_libraries.EFA_SOURCE, all_known=True, near=3),
    Family("FI_", "libfabric", other_libraries.SOURCE),
    Family("UCX_", "UCX", other_libraries.UCX_SOURCE),
    Family("OMPI_MCA_", "Open MPI", other_libraries.MPI_SOURCE),
    Family("CCL_", "oneCCL", other_libraries.ONECCL_SOURCE),
    Family("HOROVOD_", "Horovod", SOURCE, all_known=True, near=2),
    Family("GLOO_", "Gloo", _GLOO),
    Family("TP_", "PyTorch", _GLOO),
)


def family_of(name: str) -> Family | None:
    """Return the family of a name."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)


def with_prefix(name: str) -> tuple[str, Family] | None:
    """Return the known name, and its family, of one with a wrong prefix: ``OROVOD_CACHE_CAPACITY``."""
    begin = misspelt_prefix(name)
    found = begin and begin + name.partition("_")[2]
    family = family_of(found) if found in KNOWN else None
    return (found, family) if found and family else None


def near(name: str, family: Family, library: str | None = None) -> str | None:
    """Return the most similar known name, None where none is similar; RCCL's own come first."""
    if library == "rccl" and family.prefix == "NCCL_":
        own = near(f"R{name}", OF_RCCL)
        if own:
            return own
    begin = len(family.prefix)
    ends = [item[begin:] for item in KNOWN if item.startswith(family.prefix) and not KNOWN[item].gone]
    found = closest(name[begin:], ends, family.near)
    return family.prefix + found if found else None
