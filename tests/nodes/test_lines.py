"""Lines that several processes append to one file."""

from __future__ import annotations

import errno
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hpcdist.nodes import known

APPEND = """
import sys
from pathlib import Path
from hpcdist.nodes import known
for number in range(50):
    known.append(Path(sys.argv[1]), [f"{sys.argv[2] * 500} {number}"], 0o660)
"""


def test_processes_at_once_write_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    words = (sys.executable, "-c", APPEND, str(file))
    running = [subprocess.Popen([*words, name]) for name in "abc"]
    assert [process.wait(300) for process in running] == [0, 0, 0]
    expected = [f"{name * 500} {number}" for name in "abc" for number in range(50)]
    assert sorted(filter(None, file.read_text().split("\n"))) == sorted(expected)
    assert stat.S_IMODE(file.stat().st_mode) == 0o660


def test_a_line_after_a_half_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.write_text('\n{"node": "n1"}\n{"nod')
    known.append(file, ["one", "two"], 0o600)
    known.append(file, [], 0o600)
    assert [*filter(None, file.read_text().split("\n"))] == ['{"node": "n1"}', '{"nod', "one", "two"]


def test_a_full_disk_and_a_link_are_errors(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for file, code in ((Path("/dev/full"), errno.ENOSPC), (tmp_path / "link", errno.ELOOP)):
        with pytest.raises(OSError, match=r"\[Errno") as caught:
            known.append(file, ["one"], 0o600)
        assert caught.value.errno == code
