"""Sites for tests: shipped ones, and ones made of keywords."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from hpcdist.base import fields, source
from hpcdist.base.resources import shipped, site_files
from hpcdist.loading import load
from hpcdist.planner.pools import pools
from hpcdist.site.fabric import JobFacts
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of

SHIPPED = tuple(sorted(site_files([shipped("site_configs")])))


@cache
def shipped_site(name: str) -> Site:
    """Return a site of ``site_configs/``."""
    return load.load_model(Site, source.load(shipped("site_configs") / f"{name}.yaml"))


@cache
def site_named(name: str) -> Site:
    """Return a site of ``tests/sites``, else a shipped one."""
    own = Path(__file__).parent / "sites" / f"{name}.yaml"
    return load.load_model(Site, source.load(own)) if own.exists() else shipped_site(name)


_ACCOUNTS = (
    "proj",
    "project_465000001",
    *(f"proj@{kind}" for kind in ("cpu", "v100", "a100", "h100")),
    *(f"abcd-{kind}" for kind in ("delta-cpu", "delta-gpu", "dtai-gh")),
    "aip-abcd",
    "pawsey1234-gpu",
)
"""Accounts of the forms that shipped sites have."""


def account_on(site: Site, *, gpus: bool = True, partition: str | None = None) -> str:
    """Return an account as a job has it there, in this partition or the first with or without GPUs."""
    own = [pool for pool in pools(site) if partition in (None, pool.partition)] or [*pools(site)]
    pool = next((pool for pool in own if bool(pool.gpus or pool.gpus_unknown) == gpus), own[0])
    job = JobFacts(1, node_types=(pool.node_type or "",), partitions=(pool.partition or "",))
    return next(
        name
        for name in _ACCOUNTS
        if re.fullmatch(site.account.pattern or ".*", name)
        and not any(rule.refuse for rule in site.account.broken_rules(name, job))
    )


def site(**data: Any) -> Site:
    """Return a Slurm site of these keys, as a file has them."""
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    built, problems = fields.build(Site, base | data)
    assert problems == []
    assert built is not None
    assert list(problems_of(built)) == []
    return built
