"""Variables of other fabrics, and what must go together."""

# ruff: noqa: E501 - messages are compared whole, and one case is easier to read on few lines

from __future__ import annotations

import pytest

from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.planner.lint import findings
from hpcdist.planner.lint.finding import LintContext, summarized, versions_of

OFF = Word(text="--network=disable_rdzv_get", origin=Origin("site", "x", "fabric.together.0"))
OTHER = Word(text="--network=single_node_vni", origin=Origin("key", "batch.directives"))
FLUX_OFF = Word(text="--setattr=rdzv_get_en=0", origin=Origin("site", "x", "fabric.together.0"))
FLUX_OTHER = Word(text="--setattr=other=1", origin=Origin("key", "batch.directives"))
SLINGSHOT = LintContext(network="slingshot", library="nccl", nodes=2, words=())


def said(around: LintContext, **values: str) -> list[str]:
    """Return `name: what happens` of warnings about several variables."""
    variables = [
        Variable(name=name, value=value, origin=Origin("place", "exp.yml:3"))
        for name, value in values.items()
    ]
    found = findings(variables, around)
    return [f"{item.name}: {item.happens}" for item in found if item.severity == "warning"]


@pytest.mark.parametrize(
    ("around", "values", "expected"),
    [
        (LintContext(network="infiniband"), {"FI_CXI_RX_MATCH_MODE": "hybrid"},
         ["FI_CXI_RX_MATCH_MODE: it is for Slingshot; the network here is InfiniBand, so it has no effect"]),
        (SLINGSHOT, {"NCCL_IB_HCA": "mlx5"},
         ["NCCL_IB_HCA: it is for InfiniBand verbs; NCCL reaches Slingshot by a plug-in, so it has no effect"]),
        (SLINGSHOT, {"NCCL_IB_DISABLE": "1"}, []),
        (SLINGSHOT, {"UCX_TLS": "rc"},
         ["UCX_TLS: UCX has no transport for Slingshot, so it has no effect there"]),
        (SLINGSHOT, {"UCX_HANDLE_ERRORS": "none"}, []),
        (LintContext(library="oneccl"), {"NCCL_CROSS_NIC": "1"},
         ["NCCL_CROSS_NIC: the GPUs here use oneCCL, which reads no such variable"]),
        (LintContext(), {"NCCL_SOCKET_NTHREADS": "8", "NCCL_NSOCKS_PERTHREAD": "9"},
         [("NCCL_NSOCKS_PERTHREAD: 8 threads (NCCL_SOCKET_NTHREADS) with 9 sockets each are 72; NCCL takes 64 at "
          "most and lowers this to 8")]),
        (LintContext(), {"NCCL_SOCKET_NTHREADS": "8", "NCCL_NSOCKS_PERTHREAD": "8"}, []),
        (LintContext(), {"NCCL_MIN_CTAS": "9", "NCCL_MAX_CTAS": "8"}, ["NCCL_MIN_CTAS: it is above NCCL_MAX_CTAS=8"]),
        (LintContext(), {"NCCL_ALGO": "Tree"},
         ["NCCL_ALGO: where none of these works NCCL ends with an error: since 2.24 it falls back to no ring"]),
        (LintContext(), {"NCCL_ALGO": "^Tree"}, []),
        (LintContext(), {"NCCL_ALGO": "Rings"},
         ["NCCL_ALGO: NCCL does not know 'Rings' and ends with an error when it starts (since 2.24)"]),
        (LintContext(), {"NCCL_PROTO": "LL128"},
         [("NCCL_PROTO: LL128 on a platform that does not support it corrupts data, and NCCL turns it on where it "
          "does")]),
        (SLINGSHOT._replace(nodes=1), {"NCCL_NET": "OFI"},
         ["NCCL_NET: on one node of Slingshot it is slow, or fails: Slurm gives such jobs no network of their own"]),
        (SLINGSHOT, {"NCCL_NET": "OFI"}, []),
        (SLINGSHOT, {"NCCL_NET": "IB"},
         ["NCCL_NET: this network has no InfiniBand verbs for NCCL, so it ends with an error"]),
        (SLINGSHOT, {"FI_PROVIDER": "verbs"},
         ["FI_PROVIDER: it leaves libfabric without cxi, the provider of this network"]),
        (SLINGSHOT, {"FI_PROVIDER": "cxi"}, []),
        (SLINGSHOT, {"FI_CXI_RDZV_PROTO": "alt_read"},
         ["FI_CXI_RDZV_PROTO: it needs the driver's get protocol off, and no directive does that"]),
        (SLINGSHOT._replace(words=(OFF,)), {"FI_CXI_RDZV_PROTO": "alt_read"}, []),
        (SLINGSHOT._replace(words=(OFF,)), {},
         [("FI_CXI_RDZV_PROTO: --network=disable_rdzv_get turns the driver's get protocol off, and no other is "
          "chosen")]),
        (SLINGSHOT._replace(words=(OFF, OTHER)), {"FI_CXI_RDZV_PROTO": "alt_read"},
         ["FI_CXI_RDZV_PROTO: it needs the driver's get protocol off, and no directive does that"]),
        (SLINGSHOT._replace(words=(OFF, OTHER)), {}, []),
        (SLINGSHOT._replace(words=(OTHER, OFF)), {"FI_CXI_RDZV_PROTO": "alt_read"}, []),
        (SLINGSHOT._replace(words=(FLUX_OFF, FLUX_OTHER)), {"FI_CXI_RDZV_PROTO": "alt_read"}, []),
        (LintContext(library="nccl"), {"UCX_TLS": "rc,sm"},
         ["UCX_TLS: it leaves out cuda, so MPI over UCX cannot send from the memory of GPUs"]),
        (LintContext(library="rccl"), {"UCX_TLS": "rc,cuda"},
         ["UCX_TLS: it leaves out rocm, so MPI over UCX cannot send from the memory of GPUs"]),
        (LintContext(library="nccl"), {"UCX_TLS": "rc,cuda_copy"}, []),
        (LintContext(library="nccl"), {"UCX_TLS": "^ud"}, []),
        (LintContext(), {"UCX_TLS": "rc"}, []),
        (LintContext(network="efa"), {"RDMAV_FORK_SAFE": "1"}, ["RDMAV_FORK_SAFE: AWS says never to set it on EFA"]),
        (LintContext(network="infiniband"), {"RDMAV_FORK_SAFE": "1"}, []),
        (SLINGSHOT._replace(words=None), {"FI_CXI_RDZV_PROTO": "alt_read"}, []),
        (SLINGSHOT, {"FI_CXI_RX_MATCH_MODE": "software", "FI_CXI_HYBRID_PREEMPTIVE": "1"},
         ["FI_CXI_HYBRID_PREEMPTIVE: FI_CXI_RX_MATCH_MODE=software makes libfabric ignore it"]),
        (LintContext(), {"OMPI_MCA_btl_tcp_if_exclude": "docker0"},
         [("OMPI_MCA_btl_tcp_if_exclude: it replaces Open MPI's own list, so the loopback interface is used between "
          "nodes")]),
        (LintContext(versions={"openmpi": (5, 0)}), {"OMPI_MCA_btl": "^openib"},
         ["OMPI_MCA_btl: Open MPI 5 has no openib"]),
        (LintContext(versions={"openmpi": (4, 1)}), {"OMPI_MCA_btl": "^openib"}, []),
        (LintContext(versions={"openmpi": (5, 0)}), {"OMPI_MCA_plm_rsh_agent": "ssh"},
         ["OMPI_MCA_plm_rsh_agent: since 5.0 it is a parameter of PRRTE, and this is Open MPI 5"]),
        (LintContext(versions={"openmpi": (4, 1)}), {"PRTE_MCA_plm_rsh_agent": "ssh"},
         ["PRTE_MCA_plm_rsh_agent: only Open MPI 5 and later read it, and this is 4"]),
    ],
)  # fmt: skip
def test_together(around: LintContext, values: dict[str, str], expected: list[str]) -> None:
    assert said(around, **values) == expected


def test_ring_is_added_to_the_list_that_lacks_it() -> None:
    value = "allreduce:tree,collnetdirect;broadcast:ring;^PAT"
    found = findings(
        [Variable(name="NCCL_ALGO", value=value, origin=Origin("place", "exp.yml:3"))], LintContext()
    )
    assert [item.write for item in found if item.severity == "warning"] == [
        ("write allreduce:tree,collnetdirect,Ring;broadcast:ring;^PAT, or exclude what you do not want by ^")
    ]


def test_equal_notes_are_merged() -> None:
    names = ("NCCL_SHM_DISABLE", "NCCL_ALGO", "NCCL_P2P_DISABLE", "NCCL_DEBUG")
    values = ("1", "Tree", "1", "INFO")
    variables = [
        Variable(name=name, value=value, origin=Origin("place", f"exp.yml:{line}"))
        for line, (name, value) in enumerate(zip(names, values, strict=True), 3)
    ]
    found = [
        (item.severity, item.name, item.value, item.origin)
        for item in summarized(findings(variables, LintContext()))
    ]
    assert found == [
        ("warning", "NCCL_ALGO", "Tree", Origin("place", "exp.yml:4")),
        ("note", "NCCL_SHM_DISABLE, NCCL_P2P_DISABLE", None, Origin("place", "exp.yml:3, exp.yml:5")),
        ("note", "NCCL_DEBUG", "INFO", Origin("place", "exp.yml:6")),
    ]


def test_versions_of_modules() -> None:
    found = versions_of(["NCCL/2.22.3-GCCcore-13.3.0", "openmpi/5.0.3", "gcc/12.2", "OpenMPI"])
    assert found == {"nccl": (2, 22, 3), "openmpi": (5, 0, 3)}
