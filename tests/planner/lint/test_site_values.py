"""What a site gives, and users' values that differ from it."""

from __future__ import annotations

import pytest

from hpcdist.plan.values import Origin, Variable
from hpcdist.planner.lint import findings
from hpcdist.planner.lint.finding import LintContext, SiteValue, constant_site_values, site_values_of
from hpcdist.site.fabric import JobFacts
from tests.sites import shipped_site

SHARP = "NCCL_COLLNET_ENABLE"
AZURE = shipped_site("azure-ndv5")
WHY, SOURCE = constant_site_values(AZURE, (JobFacts(2, "nccl"),))[SHARP][2:]
OUTSIDE = JobFacts(2, "nccl")
INSIDE = JobFacts(2, "nccl", container=True)
OURS = Origin("place", "exp.yml:3")


def said(name: str, value: str, origin: Origin = OURS) -> list[str]:
    around = LintContext(site_values=site_values_of(AZURE, OUTSIDE))
    found = findings([Variable(name=name, value=value, origin=origin)], around)
    return [str(item) for item in found if item.severity == "warning"]


def test_a_value_that_differs_from_the_site_s() -> None:
    assert said(SHARP, "0") == [
        (
            f"exp.yml:3: {SHARP}=0: site azure-ndv5 sets it to 1: {WHY}; "
            f"remove it, unless you know better ({SOURCE})"
        )
    ]


@pytest.mark.parametrize("file", ["default.yml", "site azure-ndv5.yml", "sitex.yml"])
def test_file_name_of_the_user_has_no_effect(file: str) -> None:
    (found,) = said(SHARP, "0", Origin("place", f"{file}:3"))
    assert found.startswith(f"{file}:3: ")


@pytest.mark.parametrize(
    ("name", "value", "origin"),
    [
        (SHARP, "1", OURS),
        (SHARP, "0", Origin("site", "azure-ndv5", "fabric.env")),
        ("SHARP_COLL_ENABLE_SAT", "1", OURS),
        ("NCCL_MIN_NCHANNELS", "32", OURS),
    ],
)
def test_equal_values_have_no_finding(name: str, value: str, origin: Origin) -> None:
    assert "sets it to" not in " ".join(said(name, value, origin))


def test_constant_site_values() -> None:
    found = constant_site_values(AZURE, (OUTSIDE, INSIDE))
    assert found[SHARP] == SiteValue("1", "azure-ndv5", WHY, SOURCE)
