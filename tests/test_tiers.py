from __future__ import annotations

from collections.abc import Iterable

from tests.sites import SHIPPED, shipped_site
from tests.tiers import SAMPLE, sweep


def shown(names: Iterable[str]) -> set[str]:
    """Return the batch systems, launchers and container runtimes of sites."""
    sites = [*map(shipped_site, names)]
    launchers = {launcher for site in sites for launcher in (site.launcher, *site.launchers)}
    return (
        launchers
        | {site.scheduler for site in sites}
        | {site.container.runtime for site in sites if site.container}
    )


def test_the_sample_has_every_batch_system_launcher_and_container_runtime_of_the_sites() -> None:
    assert shown(SAMPLE) == shown(SHIPPED)


def test_a_sweep_tries_the_sample_first_and_the_rest_in_the_second_tier() -> None:
    assert [value for value in sweep([*SHIPPED, "my-own"]) if isinstance(value, str)] == [*SAMPLE, "my-own"]
    assert len(sweep(SHIPPED)) == len(SHIPPED)
