"""The page on nodes shows what hpcdist reads."""

from __future__ import annotations

from hpcdist.base import fields, source
from hpcdist.experiment.model import Experiment
from tests.docs.pages import block


def test_the_experiment_is_as_it_is_read() -> None:
    data = source.parse("run: {cmd: a.out}\n" + block("nodes batch"), "exp.yml").data
    assert fields.build(Experiment, data)[1] == []
