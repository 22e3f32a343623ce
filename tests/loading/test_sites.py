"""A site file as a model, as far as it is read, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.base.resources import shipped
from hpcdist.loading.sites import load_detect, load_site, read_all
from hpcdist.site.detection import Candidate
from tests.sites import SHIPPED, shipped_site
from tests.tiers import sweep
from tests.wording import Wording

ODD = """\
name: odd
description: x
scheduler: torque
launcher: srun
launchers: {srun: {mca: {a: b}}}
"""


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_detect_section_alone_equals_that_of_the_whole_file(name: str) -> None:
    assert load_detect(shipped("site_configs") / f"{name}.yaml") == Candidate(name, shipped_site(name).detect)


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_a_shipped_site_has_no_problems(name: str) -> None:
    assert load_site(shipped("site_configs") / f"{name}.yaml") == shipped_site(name)


def test_every_problem_has_its_place(tmp_path: Path, wording: Wording) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(ODD)
    with pytest.raises(ConfigError) as caught:
        load_site(file)
    wording(str(caught.value).replace(f"{tmp_path}/", ""))


def test_invalid_site_file_is_a_warning(tmp_path: Path) -> None:
    files = [tmp_path / "odd.yaml", shipped("site_configs") / "local.yaml"]
    files[0].write_text("name: odd\n\tx: y\n")
    sites, problems = read_all(files, load_site)
    assert sites == [shipped_site("local")]
    assert [(item.severity, item.place and item.place.line) for item in problems] == [("warning", 2)]
