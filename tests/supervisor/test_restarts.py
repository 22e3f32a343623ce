"""Why attempts ended, and what follows them."""

from __future__ import annotations

from typing import Any

import pytest
from supervisor import restarts
from supervisor.restarts import End, Ended, Idle, Next

from tests.supervisor.starts import POLICY

NO_OTHER = "this job gets no other nodes"


def test_success_is_in_doubt_after_term() -> None:
    done, doubt = "the program ended with exit code 0 ", "whether it had finished is unknown"
    for end in (End(0, told=True), End(0, at_limit=True, sent_term=True)):
        text = f"{done}when it was told to end; {doubt}"
        assert restarts.judged(end, "USR1") == (end._replace(code=143), text)
    assert restarts.judged(End(3, told=True), "USR1") == (End(3, told=True), "")
    end, text = restarts.judged(End(0, at_limit=True), "USR1")
    assert (end.code, text[: len(done) + 10]) == (0, f"{done}after USR1")


def test_an_attempt_has_a_cause() -> None:
    causes = {
        End(143, told=True, ending="preempt"): "preempt", End(143, told=True, at_limit=True): "terminated",
        End(138, at_limit=True): "timeout", End(86, is_lost=True): "launch", End(1): "node_failure",
        End(3, is_explained=True): "failure", End(0, ending="timeout"): "failure",
    }  # fmt: skip
    assert {end: restarts.why(end, several=True) for end in causes} == causes
    assert restarts.why(End(1), several=False) == "failure"
    assert restarts.why(End(1, is_lost=True, is_explained=True), several=False) == "node_failure"


@pytest.mark.parametrize(
    ("code", "why", "changes", "follows"),
    [
        (0, "failure", {}, "over: completed"),
        (143, "terminated", {}, "ended: "),
        (86, "launch", {}, "over: launch"),
        (4, "failure", {"on": ("timeout",)}, "over: failure"),
        (138, "timeout", {"by": None}, f"over: timeout; {NO_OTHER}"),
        (4, "failure", {"max": 3, "stop_file": "halt", "stop_on_exit": (7, 4)}, "over: exit code 4"),
        (4, "failure", {"max": 3, "stop_file": "halt"}, "over: there is halt"),
        (4, "failure", {"max": 3, "no_progress": 2}, "over: failure; no more than 3 restarts"),
        (4, "failure", {"max": 4, "no_progress": 2}, "over: failure; 2 attempts in a row left nothing new"),
        (4, "failure", {"no_progress": 0}, "again: failure"),
        (4, "failure", {"by": None}, "again: failure"),
        (138, "timeout", {"by": "follow"}, "follow: timeout"),
        (143, "preempt", {"spare_nodes": 1}, "requeue: preempt"),
        (1, "node_failure", {"spare_nodes": 1}, "again: failure"),
        (4, "failure on a bad node", {}, "requeue: node_failure"),
        (4, "failure on a bad node", {"by": "follow"}, "again: failure"),
        (4, "failure on a bad node", {"spare_nodes": 1}, "requeue: node_failure"),
        (4, "failure on a bad node", {"spare_nodes": 1, "by": None}, f"over: node_failure; {NO_OTHER}"),
    ],
)
def test_what_follows_an_attempt(code: int, why: str, changes: dict[str, Any], follows: str) -> None:
    why, _, where = why.partition(" ")
    policy, ended = POLICY._replace(**changes), Ended(5, 2, code, why)
    found = (
        restarts.by_end(policy, ended)
        or restarts.by_count(policy, ended, Idle(2, "left nothing new"), stop_file=True)
        or restarts.follows(policy, ended, is_bad=bool(where), has_nodes=not where)
    )
    assert f"{found.what}: {found.reason}" == follows


def test_without_a_policy_failures_alone_are_tried_again() -> None:
    ends = [(4, 0, False), (4, 2, False), (4, 0, True), (0, 0, False), (86, 0, False), (137, 0, False)]
    found = [restarts.without_policy(code, tries, 2, told=told).what for code, tries, told in ends]
    assert found == ["again"] + ["ended"] * 5


def test_a_job_that_met_its_limit_before_it_acted_is_requeued_at_once() -> None:
    assert restarts.requeues_at_limit(POLICY, "timeout")
    assert not restarts.requeues_at_limit(POLICY, "terminated")
    changes: list[dict[str, Any]] = [{"on": ("failure",)}, {"by": "follow"}, {"rehearsal": "1 notice"}]
    assert not any(restarts.requeues_at_limit(POLICY._replace(**each), "timeout") for each in changes)


def test_what_was_ended_from_outside_goes_on_only_if_it_is_to() -> None:
    policy = POLICY._replace(on=("failure", "timeout"))
    only = "it was ended from outside; only after failure and timeout there is another attempt"
    assert [restarts.of_killed(policy, said) for said in ("", "terminated")] == [Next("over", only)] * 2
    assert restarts.of_killed(policy, "timeout") is None
    assert restarts.of_killed(policy._replace(by="follow"), "") is None
    assert restarts.of_killed(policy._replace(on=("preempt",)), "") is None


def test_a_reason_is_one_word_of_an_event() -> None:
    assert restarts.word("failure; no more than 3 restarts") == "failure"
    assert restarts.word("there is it's $(over); `now` \u20ac") == "there_is_it's_$(over)"
    assert restarts.word(300 * "x") == 255 * "x"
