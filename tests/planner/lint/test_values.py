"""Values and names, right and wrong, with whole messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.plan.values import Origin, Variable
from hpcdist.planner.lint import findings
from hpcdist.planner.lint.finding import Integer, LintContext, read
from hpcdist.site.fabric import Library
from tests.wording import Wording

ANYWHERE = LintContext()


OURS = Origin("place", "exp.yml:3")


def variable(name: str, value: str, origin: Origin = OURS) -> Variable:
    return Variable(name=name, value=value, origin=origin)


def said(name: str, value: str, around: LintContext = ANYWHERE) -> list[str]:
    """Return the warnings and errors about one variable."""
    return [str(item) for item in findings([variable(name, value)], around) if item.severity != "note"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_P2P_NET_CHUNKSIZE", "2M"),
        ("NCCL_CROSS_NIC", "yes"),
        ("NCCL_SOCKET_IFNAME", "10.10.5.16"),
        ("NCCL_SOCKET_IFNAME", "eth0;eth1"),
        ("GLOO_SOCKET_IFNAME", "^lo,docker0"),
        ("GLOO_SOCKET_IFNAME", "10.10.5.16"),
        ("TP_SOCKET_IFNAME", "eth"),
        ("NCCL_IB_DISABLE", "true"),
        ("NCCL_BUFFSIZE", "010"),
        ("NCCL_IB_TIMEOUT", "50"),
        ("NCCL_IB_RETRY_CNT", "10"),
        ("NCCL_NET_GDR_LEVEL", "phb"),
        ("NCCL_PROTO", "LL,Fast"),
        ("NCCL_MIN_NCHANNELS", "4"),
        ("NCCL_LL_THRESHOLD", "4"),
        ("NCCL_IB_CUDA_SUPPORT", "1"),
    ],
)
def test_values_that_nccl_misreads_silently(name: str, value: str, wording: Wording) -> None:
    wording(said(name, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_SOCKET_IFNMAE", "ib0"),
        ("NCCL_XYZZY", "1"),
        ("NCCL_MIN_CHANNELS", "8"),
        ("FI_CXI_RX_MATCH_MOD", "hybrid"),
        ("FI_CXI_RX_MATCH_MODE", "Hybrid"),
        ("FI_EFA_MTU_SIZE", "4096"),
        ("OFI_NCCL_CQ_SIZE", "12k"),
        ("UCX_RC_TIMEOUT", "4 s"),
        ("NCCL_ASYNC_ERROR_HANDLING", "1"),
    ],
)
def test_misspelt_and_foreign_names(name: str, value: str, wording: Wording) -> None:
    wording(said(name, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UCX_TSL", "rc"),
        ("UCX_RNDV_SCHEME", "zcopy"),
        ("OMPI_MCA_pml", "ucxx"),
        ("OMPI_MCA_coll_hcoll_enable", "yess"),
        ("CCL_ATL_TRANSPORT", "mpich"),
        ("nccl_debug", "INFO"),
        ("OMPI_MCA_PML", "ucx"),
    ],
)
def test_names_and_values_of_other_libraries(name: str, value: str, wording: Wording) -> None:
    found = findings([variable(name, value)], ANYWHERE)
    assert [item.severity for item in found] == ["warning"]
    wording(map(str, found))


def test_an_unknown_name_of_ucx_is_noted(wording: Wording) -> None:
    (found,) = findings([variable("UCX_XYZZY", "1")], ANYWHERE)
    assert found.severity == "note"
    wording(str(found))


@pytest.mark.parametrize(
    "library",
    [
        "rccl",
        "nccl",
    ],
)
def test_short_names_need_a_higher_similarity(library: Library, wording: Wording) -> None:
    (found,) = findings([variable("NCCL_MSCCL_ENABLE", "1")], LintContext(library=library))
    wording(str(found))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_NET_GDR_LEVEL", "3"),
        ("NCCL_NET_GDR_LEVEL", "PHB"),
        ("NCCL_SOCKET_IFNAME", "hsn0,hsn1,hsn2,hsn3"),
        ("NCCL_SOCKET_IFNAME", "^docker,lo,veth,eth"),
        ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
        ("NCCL_IB_HCA", "^=mlx5_3"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_PROTO", "simple"),
        ("NCCL_ALGO", "Ring"),
        ("NCCL_DEBUG", "info"),
        ("NCCL_NET", "AWS Libfabric"),
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "enp0s12"),
        ("NCCL_IB_TIMEOUT", ""),
        ("NCCL_SOCKET_MAGIC", "0xff"),
        ("FI_EFA_FORK_SAFE", "on"),
        ("FI_MR_CACHE_MAX_SIZE", "-1"),
        ("UCX_TLS", "^ud,ud:aux"),
        ("OMPI_MCA_coll_hcoll_enable", "0"),
        ("CCL_ALLREDUCE_SCALEOUT", "direct:0-1048576;rabenseifner:1048577-max"),
        ("PATH", "/bin"),
        ("NCCL_TESTS_SPLIT_MASK", "WARN"),
        ("HOROVOD_TIMELINE", "WARN"),
        ("HOROVOD_GPU_OPERATIONS", "WARN"),
        ("HCCL_DEBUG", "WARN"),
        ("OROVOD_X", "WARN"),
    ],
)
def test_documented_examples_are_valid(name: str, value: str) -> None:
    assert said(name, value) == []


@pytest.mark.parametrize("name", ["NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_MNNVL_UUID", "NCCL_MNNVL_CLIQUE_ID"])
def test_variables_never_to_be_set_are_errors(name: str) -> None:
    assert [item.severity for item in findings([variable(name, "1")], ANYWHERE)] == ["error"]


def test_rccl_values_differ_from_nccl() -> None:
    assert said("NCCL_MIN_NCHANNELS", "112", LintContext(library="rccl")) == []
    assert said("NCCL_CUMEM_ENABLE", "-2", LintContext(library="rccl")) == []


def test_a_debugging_variable_is_noted(wording: Wording) -> None:
    (found,) = findings([variable("NCCL_SHM_DISABLE", "1")], ANYWHERE)
    assert found.severity == "note"
    wording(str(found))
    assert findings([variable("NCCL_SHM_DISABLE", "1", Origin("site", "x", "fabric.env"))], ANYWHERE) == ()


def test_known_site_exceptions_are_not_reported() -> None:
    odd = variable("NCCL_IB_TIMEOUT", "50", Origin("site", "x", "fabric.env.NCCL_IB_TIMEOUT"))
    assert len(findings([odd], ANYWHERE)) == 1
    assert findings([odd], LintContext(known={"NCCL_IB_TIMEOUT": "the centre says so"})) == ()


def test_shell_expressions_are_not_checked() -> None:
    only_bash = Variable(name="NCCL_IB_TIMEOUT", value="$LONG", origin=OURS, shell=True)  # noqa: S604
    assert findings([only_bash], ANYWHERE) == ()


RANGE = Integer(-3, 200)


@given(st.integers(-3, 200))
def test_numbers_in_range_are_valid(number: int) -> None:
    assert RANGE.wrong(str(number)) is None


@given(st.integers().filter(lambda number: not -3 <= number <= 200))
def test_out_of_range_numbers_are_reported(number: int) -> None:
    assert RANGE.wrong(str(number)) is not None


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        ("2M", 0, (2, "M")),
        ("010", 0, (8, "")),
        ("010", 10, (10, "")),
        ("0x1F", 0, (31, "")),
        ("0x1F", 10, (0, "x1F")),
        ("08", 0, (0, "8")),
        (" -7 ", 0, (-7, " ")),
        ("yes", 0, (0, "yes")),
    ],
)
def test_strtoll(text: str, base: int, expected: tuple[int, str]) -> None:
    assert read(text, base) == expected


@pytest.mark.parametrize(
    "name",
    [
        "HOROVOD_MY_OWN",
        "OROVOD_CACHE_CAPACITY",
        "HOROVOD_CACHE_CAPACTY",
        "NCL_DEBUG",
    ],
)
def test_names_of_horovod_and_misspelt_beginnings(name: str, wording: Wording) -> None:
    wording(said(name, "WARN"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOROVOD_FUSION_THRESHOLD", "64M"),
        ("HOROVOD_CYCLE_TIME", "5ms"),
        ("HOROVOD_HIERARCHICAL_ALLREDUCE", "true"),
    ],
)
def test_values_that_horovod_misreads_silently(name: str, value: str, wording: Wording) -> None:
    wording(said(name, value))
