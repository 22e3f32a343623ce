"""Variables of aws-ofi-nccl, RCCL, UCX, Open MPI and oneCCL.

aws-ofi-nccl @ 2daf7d30 (2026-08-21, 1.21), ``include/nccl_ofi_param.h``: a value that it cannot read ends
its start.
UCX @ 9466d104a3 (2026-08-21): the same. RCCL and oneCCL: not all names are known here.
"""

from __future__ import annotations

from typing import Final

from hpcdist.planner.lint.finding import BOOLEAN, TEXT, Entry, Integer, Kind, Listed, OneOf, TextShape

# --- libfabric's variables: the common ones, cxi's (Slingshot) and efa's (AWS)
#
# ofiwg/libfabric @ af8ddbe92 (2026-08-21): ``man/fi_cxi.7.md``, ``man/fi_efa.7.md``, and the code behind
# them, ``prov/cxi/src/cxip_info.c`` and ``prov/efa/src/efa_env.c``. Booleans are 0, 1, false, true, no,
# yes, off, on; another word leaves the default.

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
_DEVICES: Final = TextShape(
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


# --- Variables of aws-ofi-nccl, RCCL, UCX, Open MPI and oneCCL

OFI_SOURCE: Final = "github.com/aws/aws-ofi-nccl @ 2daf7d30, include/nccl_ofi_param.h"
RCCL_SOURCE: Final = "https://rocm.docs.amd.com/projects/rccl/en/latest/api-reference/env-variables.html"
UCX_SOURCE: Final = "https://openucx.readthedocs.io/en/master/faq.html"
MPI_SOURCE: Final = "https://docs.open-mpi.org/en/main/mca.html"
ONECCL_SOURCE: Final = (
    "github.com/argonne-lcf/user-guides @ 7d04a3f9, docs/aurora/data-science/frameworks/oneCCL.md"
)

_FAILS: Final = "refuses the value, and NCCL starts without the plug-in or not at all"
_PLUGIN: Final = "aws-ofi-nccl"
_OTHERS_BOOL: Final = OneOf(("0", "1", "true", "false"), _FAILS, _PLUGIN)
_OTHERS_INT: Final = Integer(0, program=_PLUGIN, base=10, strict=True)


def _words(*words: str) -> Kind:
    return OneOf(words, _FAILS, _PLUGIN)


_OFI_SWITCHES: Final = """
    DISABLE_DMABUF GDR_FLUSH_DISABLE CUDA_FLUSH_ENABLE DISABLE_GDR_REQUIRED_CHECK DISABLE_NATIVE_RDMA_CHECK
    MR_CACHE_DISABLE USE_IPV6_TCP USE_LOW_LATENCY_TC RR_CTRL_MSG EARLY_COMPLETION DISABLE_CLOSE_MESSAGE
    ABORT_ON_ERROR ERRORCHECK_MUTEX SKIP_NICS_WITHOUT_ACCEL_AT_SAME_PCI_LEVEL
"""
_OFI_NUMBERS: Final = """
    FORCE_NUM_RAILS TUNER_NUM_CHANNELS TUNER_NET_LATENCY TUNER_NET_COMP_OVERHEAD NIC_DUP_CONNS CQ_READ_COUNT
    CQ_SIZE MR_KEY_SIZE EAGER_MAX_SIZE MIN_STRIPE_SIZE SCHED_MAX_SMALL_RR_SIZE RDMA_MIN_POSTED_EAGER_BUFFERS
    RDMA_MAX_POSTED_EAGER_BUFFERS RDMA_MIN_POSTED_CONTROL_BUFFERS RDMA_MAX_POSTED_CONTROL_BUFFERS
    CM_NUM_RX_BUFFERS GIN_CQ_PROCESS_MAX_ITER
"""
_OFI_WORDS: Final = {
    "PROTOCOL": (_words("SENDRECV", "RDMA"), ""),
    "TUNER_TYPE": (_words("INTERNAL", "REGION", "MODEL"), "REGION"),
    "PROGRESS_MODEL": (_words("UNSPEC", "AUTO", "MANUAL"), "UNSPEC"),
    "PLATFORM": (_words("AWS", "Default", ""), ""),
    "NVTX_TRACE_DIMENSION": (_words("PER_COMM", "PER_DEV"), "PER_COMM"),
    "GDAKI_EFA_HW_COUNTER": (_words("AUTO", "ON", "OFF"), "AUTO"),
    "NET_LATENCY": (TextShape(r"\d+(\.\d*)?", "a number such as 35.0", _FAILS, _PLUGIN), "0.0"),
    "EXCLUDE_TCP_IF": (TEXT, "lo,docker0"),
}
_BOUNCE: Final = "aws-ofi-nccl has removed it"

OFI: Final = (
    *(Entry(f"OFI_NCCL_{name}", _OTHERS_BOOL, source=OFI_SOURCE) for name in _OFI_SWITCHES.split()),
    *(Entry(f"OFI_NCCL_{name}", _OTHERS_INT, source=OFI_SOURCE) for name in _OFI_NUMBERS.split()),
    *(
        Entry(f"OFI_NCCL_{name}", kind, usual, source=OFI_SOURCE)
        for name, (kind, usual) in _OFI_WORDS.items()
    ),
    *(
        Entry(
            f"OFI_NCCL_RDMA_{end}_POSTED_BOUNCE_BUFFERS",
            gone=_BOUNCE,
            successor=f"OFI_NCCL_RDMA_{end}_POSTED_EAGER_BUFFERS",
            source=OFI_SOURCE,
        )
        for end in ("MIN", "MAX")
    ),
    Entry(
        "OFI_NCCL_ENDPOINT_PER_COMM", gone="aws-ofi-nccl has deprecated it and ignores it", source=OFI_SOURCE
    ),
)

_RCCL_NAMES: Final = (
    "MSCCL_ENABLE MSCCL_FORCE_ENABLE MSCCL_ENABLE_SINGLE_PROCESS MSCCLPP_ENABLE MSCCLPP_THRESHOLD"
)

RCCL_OWN: Final = tuple(Entry(f"RCCL_{name}", source=RCCL_SOURCE) for name in _RCCL_NAMES.split())
"""Some of the names that begin with RCCL_."""

_CHANNELS: Final = Integer(1)

RCCL: Final = {
    entry.name: entry
    for entry in (
        Entry("NCCL_MIN_NCHANNELS", _CHANNELS, source=RCCL_SOURCE),
        Entry("NCCL_MAX_NCHANNELS", _CHANNELS, source=RCCL_SOURCE),
        Entry("NCCL_MIN_CTAS", _CHANNELS, source=RCCL_SOURCE),
        Entry("NCCL_MAX_CTAS", _CHANNELS, source=RCCL_SOURCE),
        Entry("NCCL_CUMEM_ENABLE", Integer(0, 1, "RCCL", also=(-2,)), "0", source=RCCL_SOURCE),
        Entry("NCCL_BOOTSTRAP_BIDIR_ALLGATHER", BOOLEAN, "1", source=RCCL_SOURCE),
        Entry("NCCL_LIBIBVERBS_SO", source=RCCL_SOURCE),
        Entry(
            "NCCL_DEBUG",
            OneOf(
                ("NONE", "ERROR", "VERSION", "WARN", "INFO", "ABORT", "TRACE"), "knows no such level", "RCCL"
            ),
            use="diagnosis",
            source=RCCL_SOURCE,
        ),
    )
}
"""Variables that RCCL and NCCL read differently, by name."""

_UCX_FAILS: Final = "refuses the value and does not start"
_YES_NO: Final = OneOf(("y", "n", "yes", "no", "1", "0"), _UCX_FAILS, "UCX")
_ON_OFF: Final = OneOf(
    ("on", "off", "auto", "try", "maybe", "y", "n", "yes", "no", "1", "0"), _UCX_FAILS, "UCX"
)
_COUNT: Final = Integer(1, program="UCX", base=10, strict=True)
_TIME: Final = TextShape(
    r"\d+(\.\d+)?(m|s|ms|us|ns)?|inf|auto", "a time such as `4s` or `500ms`", _UCX_FAILS, "UCX"
)
_LIST: Final = TextShape(
    r"\^?[^\s,]+(,[^\s,]+)*", "names with commas and no blanks between", _UCX_FAILS, "UCX"
)

_SCHEME: Final = OneOf(
    ("auto", "get_zcopy", "put_zcopy", "get_ppln", "put_ppln", "am", "rkey_ptr"), _UCX_FAILS, "UCX"
)
_LEVEL: Final = OneOf(
    ("fatal", "error", "warn", "diag", "info", "debug", "trace", "req", "data", "async", "func", "poll"),
    _UCX_FAILS,
    "UCX",
)

UCX: Final = (
    *(Entry(f"UCX_{name}", _LIST, source=UCX_SOURCE) for name in ("NET_DEVICES", "TLS")),
    *(Entry(f"UCX_{name}", _COUNT, source=UCX_SOURCE) for name in ("MAX_RNDV_RAILS", "MAX_EAGER_RAILS")),
    *(Entry(f"UCX_{name}", _YES_NO, source=UCX_SOURCE)
      for name in ("MEMTYPE_CACHE", "PROTO_ENABLE", "PROTO_INFO")),
    Entry("UCX_IB_PCI_RELAXED_ORDERING", _ON_OFF, "auto", source=UCX_SOURCE),
    Entry("UCX_RC_TIMEOUT", _TIME, source=UCX_SOURCE),
    Entry("UCX_IB_AR_ENABLE", _ON_OFF, source=UCX_SOURCE),
    Entry("UCX_RNDV_SCHEME", _SCHEME, "auto", source=UCX_SOURCE),
    Entry("UCX_LOG_LEVEL", _LEVEL, source=UCX_SOURCE),
    *(
        Entry(f"UCX_{name}", source=UCX_SOURCE)
        for name in (
            "IB_GID_INDEX", "IB_SL", "IB_TRAFFIC_CLASS", "RNDV_THRESH", "LOG_FILE", "ZCOPY_THRESH",
            "WARN_UNUSED_ENV_VARS", "UNIFIED_MODE", "RC_RETRY_COUNT", "RC_RNR_RETRY_COUNT", "RC_PATH_MTU",
            "UD_TIMEOUT", "SOCKADDR_TLS_PRIORITY", "ERROR_SIGNALS", "HANDLE_ERRORS",
        )
    ),
)  # fmt: skip

_MCA: Final = """
    mtl btl osc coll btl_tcp_if_include btl_tcp_if_exclude oob_tcp_if_include oob_tcp_if_exclude
    mtl_ofi_provider_include mtl_ofi_provider_exclude plm_rsh_agent plm_rsh_args
    plm_rsh_disable_qrsh plm_rsh_no_tree_spawn plm_rsh_num_concurrent orte_keep_fqdn_hostnames
    orte_default_hostfile orte_set_default_slots hwloc_base_binding_policy rmaps_base_mapping_policy
    rmaps_base_oversubscribe opal_cuda_support btl_openib_allow_ib btl_vader_single_copy_mechanism
"""

_PML: Final = Listed(
    ("ob1", "cm", "ucx", "v", "monitoring", "bfo", "crcpw", "yalla", "ubcl"),
    "finds no component {} and ends with an error",
    "Open MPI",
)
_HCOLL: Final = OneOf(("0", "1"), "takes a number here and no word", "Open MPI")

OPEN_MPI: Final = (
    *(Entry(f"OMPI_MCA_{name}", source=MPI_SOURCE) for name in _MCA.split()),
    Entry("OMPI_MCA_pml", _PML, source=MPI_SOURCE),
    Entry("OMPI_MCA_coll_hcoll_enable", _HCOLL, source=MPI_SOURCE),
)

_ONECCL: Final = """
    ATL_SHM ATL_RMA ATL_HMEM ATL_SEND_PROXY ATL_SYNC_COLL
    ATL_EXTRA_EP
    ATL_CACHE KVS_USE_MPI_RANKS KVS_CONNECTION_TIMEOUT MNIC_NAME MNIC_COUNT MNIC_OFFSET
    ALLGATHER
    ALLGATHERV ALLREDUCE ALLREDUCE_SCALEOUT ALLTOALL ALLTOALLV BARRIER BCAST REDUCE REDUCE_SCATTER
    WORKER_COUNT
    WORKER_OFFLOAD WORKER_WAIT WORKER_AFFINITY WORKER_MEM_AFFINITY FRAMEWORK FUSION OP_SYNC CONFIGURATION
    CONFIGURATION_PATH ZE_CACHE_OPEN_IPC_HANDLES_THRESHOLD SCHED_DUMP SCHED_PROFILE ALGO_FALLBACK
    UNORDERED_COLL
"""

_ONECCL_WORDS: Final = {
    "LOG_LEVEL": ("error", "warn", "info", "debug", "trace"),
    "PROCESS_LAUNCHER": ("hydra", "torchrun", "pmix", "none"),
    "ATL_TRANSPORT": ("ofi", "mpi"),
    "KVS_MODE": ("pmi", "mpi"),
    "MNIC": ("none", "local", "global"),
}

ONECCL: Final = (
    *(Entry(f"CCL_{name}", source=ONECCL_SOURCE) for name in _ONECCL.split()),
    *(
        Entry(f"CCL_{name}", OneOf(words, "knows no such word", "oneCCL"), source=ONECCL_SOURCE)
        for name, words in _ONECCL_WORDS.items()
    ),
)
