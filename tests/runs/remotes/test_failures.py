"""What ssh says becomes a sentence with what to do."""

from __future__ import annotations

import pytest

from hpcdist.runs.remotes import connection
from tests.wording import Wording

SAID = (
    "ssh: connect to host x port 22: Connection refused",
    "ssh: Could not resolve hostname x: Name or service not known",
    "ssh: connect to host x port 22: No route to host",
    "Host key verification failed.",
    "me@x: Permission denied (publickey).",
    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key bad.",
)


@pytest.mark.parametrize("said", SAID)
def test_the_cause_is_named_with_the_words_of_ssh(said: str, wording: Wording) -> None:
    wording(str(connection.problem("box", "me@x", said)))


def test_control_characters_of_a_remote_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in str(connection.no_answer("box", "x", 3, "\x1b[2Jgone", ""))


def test_the_reason_is_found_among_the_lines_of_tar(wording: Wording) -> None:
    said = "tar: job.sh: Cannot write: No space left on device\ntar: Exiting with failure status\n"
    wording(str(connection.unwritten("box", said)))
