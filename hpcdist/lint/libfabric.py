"""libfabric's variables: the common ones, those of cxi (Slingshot) and those of efa (AWS).

ofiwg/libfabric @ af8ddbe92 (2026-08-21): ``man/fi_cxi.7.md``, ``man/fi_efa.7.md``, and the code behind them,
``prov/cxi/src/cxip_info.c`` and ``prov/efa/src/efa_env.c``. Booleans are 0, 1, false, true, no, yes, off, on;
another word leaves the default.
"""

from __future__ import annotations

from typing import Final

from hpcdist.lint.entry import Entry
from hpcdist.lint.kinds import Integer, Kind, OneOf, Shape

SOURCE: Final = "https://ofiwg.github.io/libfabric/main/man/fabric.7.html"
CXI_SOURCE: Final = "https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html"
EFA_SOURCE: Final = "https://ofiwg.github.io/libfabric/main/man/fi_efa.7.html"

_WORDS: Final = ("0", "1", "false", "true", "no", "yes", "off", "on")
_BOOL: Final = OneOf(_WORDS, "takes no such word and keeps its default", "libfabric")
_INT: Final = Integer(program="libfabric")
_SIZE: Final = Integer(0, program="libfabric")
_POSITIVE: Final = Integer(1, program="libfabric", beyond="libfabric corrects it")
_PERCENT: Final = Integer(1, 100, program="libfabric", beyond="libfabric takes 50 instead")
_QUEUE: Final = Integer(16, program="libfabric", beyond="libfabric takes its default instead")
_CREDITS: Final = Integer(1, program="libfabric", beyond="libfabric aborts: messages would wait for ever")
_UNKNOWN: Final = "warns at most, and keeps its default"


def _word(*words: str) -> Kind:
    return OneOf(words, _UNKNOWN, "libfabric", exact=True)


_MONITOR: Final = OneOf(
    ("userfaultfd", "memhooks", "kdreg2", "disabled"), "knows no such monitor", "libfabric", exact=True
)
_DEVICES: Final = Shape(
    r"[^\s,]+(,[^\s,]+)*", "devices with commas and no blanks", "finds no such device", "libfabric"
)

COMMON: Final = (
    Entry("FI_PROVIDER", source=SOURCE),
    Entry("FI_MR_CACHE_MONITOR", _MONITOR, source=SOURCE),
    Entry("FI_MR_CACHE_MAX_SIZE", Integer(-1, program="libfabric"), source=SOURCE),
    Entry("FI_MR_CACHE_MAX_COUNT", Integer(-1, program="libfabric"), source=SOURCE),
    Entry("FI_MR_CUDA_CACHE_MONITOR_ENABLED", _BOOL, source=SOURCE),
    Entry("FI_MR_ROCR_CACHE_MONITOR_ENABLED", _BOOL, source=SOURCE),
    Entry("FI_MR_ZE_CACHE_MONITOR_ENABLED", _BOOL, source=SOURCE),
    *(
        Entry(name, source=SOURCE)
        for name in (
            "FI_LOG_LEVEL",
            "FI_LOG_PROV",
            "FI_LOG_SUBSYS",
            "FI_PROVIDER_PATH",
            "FI_HMEM",
            "FI_UNIVERSE_SIZE",
        )
    ),
)

_CXI_SWITCHES: Final = """
    RDZV_ALIGNED_SW_RGET ENABLE_TRIG_OP_LIMIT DISABLE_NON_INJECT_MSG_IDC DISABLE_HOST_REGISTER
    ENABLE_UNRESTRICTED_END_RO ODP FORCE_ODP ATS IOTLB DISABLE_DMABUF_CUDA DISABLE_DMABUF_ROCR OPTIMIZED_MRS
    MR_MATCH_EVENTS PROV_KEY_CACHE MSG_LOSSLESS HYBRID_PREEMPTIVE HYBRID_RECV_PREEMPTIVE
    HYBRID_POSTED_RECV_PREEMPTIVE HYBRID_UNEXPECTED_MSG_PREEMPTIVE DISABLE_EQ_HUGETLB DISABLE_CQ_HUGETLB
    COLL_USE_DMA_PUT DISABLE_HMEM_DEV_REGISTER FORCE_ZE_HMEM_SUPPORT TRUNC_OK DISABLE_ALT_READ_CMDQ
    MSG_OFFLOAD
"""
_CXI_SIZES: Final = """
    RNR_MAX_TIMEOUT_US RDZV_THRESHOLD RDZV_GET_MIN RDZV_EAGER_SIZE OFLOW_BUF_SIZE OFLOW_BUF_COUNT
    OFLOW_BUF_MIN_POSTED OFLOW_BUF_MAX_CACHED SAFE_DEVMEM_COPY_THRESHOLD DEFAULT_VNI EQ_ACK_BATCH_SIZE
    REQ_BUF_SIZE REQ_BUF_MIN_POSTED REQ_BUF_MAX_COUNT REQ_BUF_MAX_CACHED FC_RETRY_USEC_DELAY SW_RX_TX_INIT_MAX
    CTRL_RX_EQ_MAX_SIZE HWCOLL_ADDRS_PER_JOB HWCOLL_MIN_NODES COLL_RETRY_USEC COLL_TIMEOUT_USEC ZBCOLL_RADIX
"""
_CXI_TEXTS: Final = "TELEMETRY COLL_JOB_ID COLL_JOB_STEP_ID COLL_FABRIC_MGR_URL COLL_MCAST_TOKEN"
_CXI_WORDS: Final = {
    "RX_MATCH_MODE": (_word("hardware", "software", "hybrid"), "hardware"),
    "RDZV_PROTO": (_word("default", "alt_read", "alt-read", "alt_write", "alt-write"), "default"),
    "LLRING_MODE": (_word("idle", "always", "never"), ""),
    "CQ_POLICY": (_word("always", "high_empty", "low_empty", "low"), ""),
    "MR_TARGET_ORDERING": (_word("default", "strict", "relaxed"), "default"),
    "ATS_MLOCK_MODE": (_word("off", "all"), ""),
    "RGET_TC": (_word("BEST_EFFORT", "LOW_LATENCY", "DEDICATED_ACCESS", "BULK_DATA"), ""),
    "DEVICE_NAME": (_DEVICES, ""),
    "DEFAULT_CQ_SIZE": (_POSITIVE, "131072"),
    "DEFAULT_TX_SIZE": (_QUEUE, "1024"),
    "DEFAULT_RX_SIZE": (_QUEUE, "1024"),
    "CQ_FILL_PERCENT": (_PERCENT, "50"),
    "TELEMETRY_RGID": (_INT, "-1"),
}

CXI: Final = (
    *(Entry(f"FI_CXI_{name}", _BOOL, source=CXI_SOURCE) for name in _CXI_SWITCHES.split()),
    *(Entry(f"FI_CXI_{name}", _SIZE, source=CXI_SOURCE) for name in _CXI_SIZES.split()),
    *(Entry(f"FI_CXI_{name}", source=CXI_SOURCE) for name in _CXI_TEXTS.split()),
    *(Entry(f"FI_CXI_{name}", kind, usual, source=CXI_SOURCE) for name, (kind, usual) in _CXI_WORDS.items()),
)

_EFA_SWITCHES: Final = """
    USE_DEVICE_RDMA FORK_SAFE USE_HUGE_PAGE MR_CACHE_ENABLE RX_COPY_UNEXP RX_COPY_OOO USE_SM2
    USE_UNSOLICITED_WRITE_RECV DIRECT_CQ_OPS USE_DATA_PATH_DIRECT TRACK_MR
"""
_EFA_SIZES: Final = """
    ENABLE_SHM_TRANSFER USE_ZCPY_RX ZCPY_RX_SEED SHM_AV_SIZE TX_QUEUE_SIZE RECVWIN_SIZE RX_WINDOW_SIZE
    READCOPY_POOL_SIZE CQ_SIZE MR_MAX_CACHED_COUNT MR_MAX_CACHED_SIZE MAX_MEMCPY_SIZE TX_SIZE RX_SIZE
    MAX_TIMEOUT
    TIMEOUT_INTERVAL EFA_CQ_READ_SIZE SHM_CQ_READ_SIZE INTER_MAX_MEDIUM_MESSAGE_SIZE
    INTER_MIN_READ_MESSAGE_SIZE
    INTER_MAX_GDRCOPY_MESSAGE_SIZE INTER_MIN_READ_WRITE_SIZE INTER_READ_SEGMENT_SIZE RUNT_SIZE
    INTERNAL_RX_REFILL_THRESHOLD
"""
_ABORTS: Final = "libfabric's efa aborts where it is set"
_IGNORED: Final = "libfabric's efa has deprecated it and ignores it"

EFA: Final = (
    *(Entry(f"FI_EFA_{name}", _BOOL, source=EFA_SOURCE) for name in _EFA_SWITCHES.split()),
    *(Entry(f"FI_EFA_{name}", _SIZE, source=EFA_SOURCE) for name in _EFA_SIZES.split()),
    Entry("FI_EFA_IFACE", _DEVICES, "all", source=EFA_SOURCE),
    Entry("FI_EFA_TX_MIN_CREDITS", _CREDITS, "32", source=EFA_SOURCE),
    *(
        Entry(f"FI_EFA_{name}", gone=_ABORTS, source=EFA_SOURCE)
        for name in ("MTU_SIZE", "TX_IOV_LIMIT", "RX_IOV_LIMIT")
    ),
    *(
        Entry(f"FI_EFA_{name}", gone=_IGNORED, source=EFA_SOURCE)
        for name in ("SET_CUDA_SYNC_MEMOPS", "SHM_MAX_MEDIUM_SIZE")
    ),
)
