"""What a site gives, and users' values that differ from it."""

from __future__ import annotations

import pytest

from hpcdist.lint import LintContext, constant_site_values, findings
from hpcdist.lint.finding import SiteValue
from hpcdist.lint.site_values import site_values_of
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Variable
from hpcdist.site.fabric import JobFacts
from tests.sites import shipped_site

MPICH = "MPICH_GPU_SUPPORT_ENABLED"
WHY = "GPU-aware MPI beside NCCL can hang (CSCS)"
SOURCE = "github.com/eth-cscs/cscs-docs @ 0910c3c, docs/software/ml/pytorch.md"
CLARIDEN = shipped_site("clariden")
OUTSIDE = JobFacts(2, "nccl")
INSIDE = JobFacts(2, "nccl", container=True)
OURS = Origin("place", "exp.yml:3")


def said(name: str, value: str, origin: Origin = OURS) -> list[str]:
    around = LintContext(site_values=site_values_of(CLARIDEN, OUTSIDE))
    found = findings([Variable(name=name, value=value, origin=origin)], around)
    return [str(item) for item in found if item.severity == "warning"]


def test_a_value_that_differs_from_the_site_s() -> None:
    assert said(MPICH, "1") == [
        (
            f"exp.yml:3: {MPICH}=1: site clariden sets it to 0: {WHY}; "
            f"remove it, unless you know better ({SOURCE})"
        )
    ]


@pytest.mark.parametrize("file", ["default.yml", "site clariden.yml", "sitex.yml"])
def test_file_name_of_the_user_has_no_effect(file: str) -> None:
    (found,) = said(MPICH, "1", Origin("place", f"{file}:3"))
    assert found.startswith(f"{file}:3: ")


@pytest.mark.parametrize(
    ("name", "value", "origin"),
    [
        (MPICH, "0", OURS),
        (MPICH, "1", Origin("site", "clariden", "fabric.env")),
        ("NCCL_NET", "aws libfabric", OURS),
        ("MPICH_OFI_NIC_POLICY", "GPU", OURS),
    ],
)
def test_equal_values_have_no_finding(name: str, value: str, origin: Origin) -> None:
    assert "sets it to" not in " ".join(said(name, value, origin))


def test_constant_site_values() -> None:
    assert constant_site_values(CLARIDEN, (OUTSIDE, INSIDE)) == {
        MPICH: SiteValue("0", "clariden", WHY, SOURCE)
    }
