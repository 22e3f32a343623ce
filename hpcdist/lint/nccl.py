"""NCCL's documented variables of the section "System configuration", which a site file may keep.

NVIDIA/nccl @ 5067397c (2026-06-11, NCCL 2.30), ``docs/userguide/source/env.rst``.
"""

from __future__ import annotations

from typing import Final

from hpcdist.lint.entry import Entry
from hpcdist.lint.kinds import ANY_INTEGER, BOOLEAN, POSITIVE, TEXT, THREE, Integer, Listed, OneOf, Shape

LEVELS: Final = ("VERSION", "WARN", "INFO", "ABORT", "TRACE")
SUBSYSTEMS: Final = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS",
    "BOOTSTRAP",
    "REG", "PROFILE", "RAS", "ALL",
)  # fmt: skip

_FAMILY: Final = OneOf(("AF_INET", "AF_INET6"), "ignores it silently and takes any address", exact=True)
_INTERFACES: Final = Shape(
    r"\^?=?[^\s,^=]+(,=?[^\s,^=]+)*|",
    "interfaces with commas and no blanks between, such as `ib0,ib1`, `=ib0` or `^docker,lo`",
    "takes blanks and signs in the middle for parts of names and finds no such interface",
)
_HCAS: Final = Shape(
    r"\^?=?[^\s,^=]+(,[^\s,^=]+)*|",
    "devices with commas and no blanks between, such as `mlx5_0:1,mlx5_1:1` or `^=mlx5_3`",
    "takes blanks and signs in the middle for parts of names and finds no such device",
)
_CIDR: Final = Shape(r"[0-9a-fA-F.:]+/[0-9]{1,3}|", "a range such as `10.0.0.0/8`", "takes no such range")
_POLICY: Final = Shape(
    r"(DEFAULT|EFFICIENCY|ZERO)(\|(DEFAULT|EFFICIENCY|ZERO))*|[012]|",
    "DEFAULT, EFFICIENCY or ZERO (several with | between)",
    "documents no such policy",
)
_NETDEVS: Final = Shape(r"AUTO|ALL|MAX:[1-9][0-9]*|", "AUTO, ALL or MAX:N", "documents no such policy")
_PLUGIN: Final = Shape(r"\S(.*\S)?|", "a suffix, a file or `none`", "finds no library of that name")
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
