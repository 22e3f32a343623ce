"""What ssh says becomes a sentence with what to do."""

from __future__ import annotations

import pytest

from hpcdist.remotes import failures

SAID = {
    "ssh: connect to host x port 22: Connection refused": "no ssh server answers there",
    "ssh: Could not resolve hostname x: Name or service not known": "there is no host of this name",
    "ssh: connect to host x port 22: No route to host": "the network does not lead there now",
    "Host key verification failed.": "ssh does not know its host key yet",
    "me@x: Permission denied (publickey).": "it refused the login",
    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key bad.": "may be another machine",
}


@pytest.mark.parametrize("said", SAID)
def test_the_cause_is_named_with_the_words_of_ssh(said: str) -> None:
    problem = failures.problem("box", "me@x", said)
    assert problem.message.startswith("box cannot be reached: ")
    assert SAID[said] in problem.message
    assert said.splitlines()[-1] in problem.message
    assert problem.hint


def test_control_characters_of_a_remote_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in str(failures.no_answer("box", "x", 3, "\x1b[2Jgone", ""))


def test_the_reason_is_found_among_the_lines_of_tar() -> None:
    said = "tar: job.sh: Cannot write: No space left on device\ntar: Exiting with failure status\n"
    assert "No space left on device" in failures.unwritten("box", said).message
