from __future__ import annotations

import pytest

from hpcdist.plan.values import DEFAULT, Origin, joined

GROUP = Origin("site", "lumi", "fabric.together.0", "both or none")


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin("place", "exp.yml:14"), "exp.yml:14"),
        (Origin("key", "horovod.autotune"), "horovod.autotune"),
        (Origin("site", "lumi", "fabric.A", notes=("multi_node",)), "site lumi: fabric.A (multi_node)"),
        (GROUP, "site lumi: fabric.together.0: both or none"),
        (Origin("site", "lumi", reason="no partitions"), "site lumi: no partitions"),
        (Origin("site", "lumi"), "site lumi"),
        (Origin("framework", "tensorflow", reason="a cluster"), "framework tensorflow: a cluster"),
        (Origin("launcher", "srun"), "launcher srun"),
        (Origin("container", "pyxis"), "container pyxis"),
        (Origin("rule", "run directory"), "rule run directory"),
        (Origin("polyaxon"), "polyaxon"),
        (Origin("task wrapper"), "task wrapper"),
        (DEFAULT, "default"),
        (Origin("default", "variables of the plan"), "variables of the plan"),
        (GROUP.with_note("nccl").with_note("instead of default"),
         "site lumi: fabric.together.0: both or none (nccl) (instead of default)"),
        (joined((GROUP, DEFAULT), " and "), "site lumi: fabric.together.0: both or none and default"),
    ],
)  # fmt: skip
def test_the_text_of_an_origin(origin: Origin, text: str) -> None:
    assert str(origin) == text
