"""NCCL's documented variables of the section "Debugging": work-arounds, not for scripts that are kept.

NVIDIA/nccl @ 5067397c (2026-06-11, NCCL 2.30), ``docs/userguide/source/env.rst``. The findings on the ends of
a range where the guide gives none is left open.
"""

from __future__ import annotations

from typing import Final

from hpcdist.lint.entry import Entry
from hpcdist.lint.kinds import (
    ANY_INTEGER,
    BOOLEAN,
    BYTES,
    POSITIVE,
    THREE,
    ByFunction,
    Integer,
    Level,
    OneOf,
    Shape,
)

ALGORITHMS: Final = ("Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "PAT")
PROTOCOLS: Final = ("LL", "LL128", "Simple")

_DISTANCE: Final = Level(("LOC", "PIX", "PXB", "PHB", "SYS"))
_P2P_DISTANCE: Final = Level(("LOC", "NVL", "PIX", "PXB", "PHB", "SYS"))
_THREADS: Final = OneOf(("64", "128", "256", "512"), "documents other numbers and corrects this one")
_CHECK: Final = OneOf(("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"), "documents no such mode")
_LAUNCH: Final = OneOf(("PARALLEL", "GROUP"), "takes any other word for PARALLEL")
_MERGE: Final = OneOf(("ALL", "RAIL"), "documents no such policy")
_ADDRESS: Final = Shape(r"(\[[^\]]+\]|[^\s:]+):[0-9]+|", "HOST:PORT, IPv6 in []", "cannot read the address")
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
