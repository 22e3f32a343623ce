"""Who looks around reads whatever a command prints: what is none of its own tells nothing."""

from __future__ import annotations

import pytest

from hpcdist.base.command import Completed
from hpcdist.schedulers.surveyors import SurveyAnswers, surveyors

RUBBISH = (
    "",
    "a=b\nc=d e=f",
    "\x00\n=|,\n||\n",
    "[]",
    "null",
    "1",
    '{"nodes": {"n": 1}}',
    "<a/>",
    "A B\n1 2\n",
)


@pytest.mark.parametrize("text", RUBBISH)
@pytest.mark.parametrize("name", surveyors.names())
def test_rubbish_shows_no_nodes(name: str, text: str) -> None:
    surveyor, answers = surveyors.get(name), SurveyAnswers()
    while commands := surveyor.ask("hu1", answers):
        answers = SurveyAnswers((*answers.completed, *(Completed(command, 0, text) for command in commands)))
    survey = surveyor.read("hu1", answers)
    assert (survey.scheduler, survey.kinds, survey.partitions) == (name, (), ())
