"""Values and names, right and wrong, with whole messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.lint import LintContext, findings
from hpcdist.lint.horovod import SOURCE as HOROVOD
from hpcdist.lint.kinds import Integer, read
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Variable
from hpcdist.site.conditions import Library

GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
ANYWHERE = LintContext()
_CAPITALS = "names of variables are case-sensitive, so nothing reads it"


OURS = Origin("place", "exp.yml:3")


def variable(name: str, value: str, origin: Origin = OURS) -> Variable:
    return Variable(name=name, value=value, origin=origin)


def said(name: str, value: str, around: LintContext = ANYWHERE) -> list[str]:
    """Return the warnings and errors about one variable."""
    return [str(item) for item in findings([variable(name, value)], around) if item.severity != "note"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "NCCL_P2P_NET_CHUNKSIZE",
            "2M",
            "NCCL reads 2 without a warning: what follows, 'M', is ignored; write 2097152",
        ),
        ("NCCL_CROSS_NIC", "yes", "NCCL reads 0 without a warning: it does not begin with a digit; write 1"),
        (
            "NCCL_IB_DISABLE",
            "true",
            "NCCL reads 0 without a warning: it does not begin with a digit; write 1",
        ),
        ("NCCL_BUFFSIZE", "010", "NCCL reads a number with a leading 0 as octal, here as 8; write 10"),
        (
            "NCCL_IB_TIMEOUT",
            "50",
            "the adapter waits without end: 31 is the longest; write a number that is 0 to 31",
        ),
        (
            "NCCL_IB_RETRY_CNT",
            "10",
            "NCCL documents 0 to 7 and does not check it; write a number that is 0 to 7",
        ),
        (
            "NCCL_NET_GDR_LEVEL",
            "phb",
            "NCCL ignores it silently: levels are words in capital letters; write PHB",
        ),
        (
            "NCCL_PROTO",
            "LL,Fast",
            (
                "NCCL does not know 'Fast' and ends with an error when it starts (since 2.24); "
                "write some of LL, LL128, Simple, with commas between"
            ),
        ),
        (
            "NCCL_MIN_NCHANNELS",
            "4",
            "since NCCL 2.17 it is deprecated; write NCCL_MIN_CTAS instead",
        ),
        ("NCCL_LL_THRESHOLD", "4", "NCCL 2.5 removed it and ignores it; write NCCL_PROTO instead"),
        ("NCCL_IB_CUDA_SUPPORT", "1", "NCCL 2.4 removed it and ignores it; write NCCL_NET_GDR_LEVEL instead"),
    ],
)
def test_values_that_nccl_misreads_silently(name: str, value: str, message: str) -> None:
    anchor = name.lower().replace("_", "-")
    assert said(name, value) == [f"exp.yml:3: {name}={value}: {message} ({GUIDE}#{anchor})"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "NCCL_SOCKET_IFNMAE",
            "ib0",
            f"NCCL 2.30 reads no such variable; write NCCL_SOCKET_IFNAME ({GUIDE})",
        ),
        (
            "NCCL_XYZZY",
            "1",
            f"NCCL 2.30 reads no such variable, so it has no effect; remove it ({GUIDE})",
        ),
        (
            "NCCL_MIN_CHANNELS",
            "8",
            (
                "neither NCCL nor PyTorch reads it, so it has no effect; "
                f"write NCCL_MIN_CTAS (before NCCL 2.17 NCCL_MIN_NCHANNELS) ({GUIDE})"
            ),
        ),
        (
            "FI_CXI_RX_MATCH_MOD",
            "hybrid",
            (
                "libfabric 2.7 reads no such variable; write FI_CXI_RX_MATCH_MODE "
                "(https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html)"
            ),
        ),
        (
            "FI_CXI_RX_MATCH_MODE",
            "Hybrid",
            (
                "libfabric warns at most, and keeps its default, "
                "since its values are case-sensitive; write hybrid "
                "(https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html)"
            ),
        ),
        (
            "FI_EFA_MTU_SIZE",
            "4096",
            (
                "libfabric's efa aborts where it is set; remove it "
                "(https://ofiwg.github.io/libfabric/main/man/fi_efa.7.html)"
            ),
        ),
        (
            "OFI_NCCL_CQ_SIZE",
            "12k",
            (
                "aws-ofi-nccl ends with an error: this is no whole number; write 12288 "
                "(github.com/aws/aws-ofi-nccl @ 2daf7d30, include/nccl_ofi_param.h)"
            ),
        ),
        (
            "UCX_RC_TIMEOUT",
            "4 s",
            (
                "UCX refuses the value and does not start; write a time such as `4s` or `500ms` "
                "(https://openucx.readthedocs.io/en/master/faq.html)"
            ),
        ),
        (
            "NCCL_ASYNC_ERROR_HANDLING",
            "1",
            (
                "PyTorch 2.2 renamed it; write TORCH_NCCL_ASYNC_ERROR_HANDLING instead "
                "(github.com/pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)"
            ),
        ),
    ],
)
def test_misspelt_and_foreign_names(name: str, value: str, message: str) -> None:
    assert said(name, value) == [f"exp.yml:3: {name}={value}: {message}"]


@pytest.mark.parametrize(
    ("name", "value", "happens", "write"),
    [
        ("UCX_TSL", "rc", "UCX reads no such variable", "write UCX_TLS"),
        (
            "UCX_RNDV_SCHEME",
            "zcopy",
            "UCX refuses the value and does not start",
            "write auto, get_zcopy, put_zcopy, get_ppln, put_ppln, am or rkey_ptr",
        ),
        (
            "OMPI_MCA_pml",
            "ucxx",
            "Open MPI finds no component 'ucxx' and ends with an error",
            (
                "write some of ob1, cm, ucx, v, monitoring, bfo, crcpw, yalla, ubcl, "
                "with commas and no blanks between"
            ),
        ),
        ("OMPI_MCA_coll_hcoll_enable", "yess", "Open MPI takes a number here and no word", "write 0 or 1"),
        ("CCL_ATL_TRANSPORT", "mpich", "oneCCL knows no such word", "write ofi or mpi"),
        ("nccl_debug", "INFO", _CAPITALS, "write NCCL_DEBUG"),
        ("OMPI_MCA_PML", "ucx", _CAPITALS, "write OMPI_MCA_pml"),
    ],
)
def test_names_and_values_of_other_libraries(name: str, value: str, happens: str, write: str) -> None:
    found = findings([variable(name, value)], ANYWHERE)
    assert [(item.happens, item.write, item.severity) for item in found] == [(happens, write, "warning")]


def test_an_unknown_name_of_ucx_is_noted() -> None:
    (found,) = findings([variable("UCX_XYZZY", "1")], ANYWHERE)
    assert (found.severity, found.happens) == (
        "note",
        "hpcdist does not know it; UCX itself warns at startup of names that it does not read",
    )


@pytest.mark.parametrize(
    ("library", "message"),
    [
        ("rccl", "RCCL reads no such variable; write RCCL_MSCCL_ENABLE"),
        ("nccl", "NCCL 2.30 reads no such variable, so it has no effect; remove it"),
    ],
)
def test_short_names_need_a_higher_similarity(library: Library, message: str) -> None:
    (found,) = findings([variable("NCCL_MSCCL_ENABLE", "1")], LintContext(library=library))
    assert f"{found.happens}; {found.write}" == message


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


def test_a_debugging_variable_is_noted() -> None:
    (found,) = findings([variable("NCCL_SHM_DISABLE", "1")], ANYWHERE)
    assert (found.severity, found.happens) == (
        "note",
        "NVIDIA documents it as a work-around only, to be removed when the fault is fixed",
    )
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
    ("name", "hint"),
    [
        ("NCCL_TESTS_SPLIT_MASK", ""),
        ("HOROVOD_TIMELINE", ""),
        ("HOROVOD_MY_OWN", "Horovod reads no such variable, so it has no effect; remove it"),
        ("HOROVOD_GPU_OPERATIONS", ""),
        ("HCCL_DEBUG", ""),
        ("OROVOD_X", ""),
        ("OROVOD_CACHE_CAPACITY", "Horovod reads no such variable; write HOROVOD_CACHE_CAPACITY"),
        ("HOROVOD_CACHE_CAPACTY", "Horovod reads no such variable; write HOROVOD_CACHE_CAPACITY"),
        ("NCL_DEBUG", "NCCL 2.30 reads no such variable; write NCCL_DEBUG"),
    ],
)
def test_names_of_horovod_and_misspelt_beginnings(name: str, hint: str) -> None:
    found = [text.partition(": ")[2].partition(": ")[2].partition(" (")[0] for text in said(name, "WARN")]
    assert found == ([hint] if hint else [])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "HOROVOD_FUSION_THRESHOLD",
            "64M",
            "Horovod reads 64 without a warning: what follows, 'M', is ignored; write 67108864",
        ),
        (
            "HOROVOD_CYCLE_TIME",
            "5ms",
            "Horovod reads milliseconds, up to what is no number; write a number, such as 2.5",
        ),
        (
            "HOROVOD_HIERARCHICAL_ALLREDUCE",
            "true",
            "Horovod reads 0 without a warning: it does not begin with a digit; write 1",
        ),
    ],
)
def test_values_that_horovod_misreads_silently(name: str, value: str, message: str) -> None:
    assert said(name, value) == [f"exp.yml:3: {name}={value}: {message} ({HOROVOD})"]
