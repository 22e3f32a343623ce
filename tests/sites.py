"""Sites for tests: shipped ones, and ones made of keywords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpcdist.documents import fields, source
from hpcdist.host.resources import shipped, site_files
from hpcdist.loading import load
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of

SHIPPED = tuple(sorted(site_files([shipped("site_configs")])))


def shipped_site(name: str) -> Site:
    """Return a site of ``site_configs/``."""
    return load.load_model(Site, source.load(shipped("site_configs") / f"{name}.yaml"))


def site_named(name: str) -> Site:
    """Return a site of ``tests/sites``, else a shipped one."""
    own = Path(__file__).parent / "sites" / f"{name}.yaml"
    return load.load_model(Site, source.load(own)) if own.exists() else shipped_site(name)


def site(**data: Any) -> Site:
    """Return a Slurm site of these keys, as a file has them."""
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    built, problems = fields.build(Site, base | data)
    assert problems == []
    assert built is not None
    assert list(problems_of(built)) == []
    return built
