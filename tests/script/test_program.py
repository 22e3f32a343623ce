"""A task's shell becomes the program wherever that means the same, and only there."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.script.launch import becoming, indented, is_single

BECOMES = {
    "python train.py --lr=0.1": "exec python train.py --lr=0.1",
    "cd code && python train.py": "cd code && exec python train.py",
    "source venv/bin/activate\npython train.py": "source venv/bin/activate\nexec python train.py",
    "A=1 B=2 python train.py": "exec env A=1 B=2 python train.py",
    "python train.py > log 2>&1": "exec python train.py > log 2>&1",
    "python 'a\nb'": "exec python 'a\nb'",
    "A=1\n# a comment\npython train.py \\\n  --a 1": "A=1\n# a comment\nexec python train.py \\\n  --a 1",
    "[[ -e venv ]] || exit 3\n./train": "[[ -e venv ]] || exit 3\nexec ./train",
    "ls | wc -l\npython train.py": "ls | wc -l\nexec python train.py",
    "python $(cat args)": "exec python $(cat args)",
    "set -e; a; b;": "set -e; a; exec b;",
}
STAYS = [
    "python a.py | tee log",
    "python a.py || python b.py",
    "python a.py &\nwait",
    "python a.py &",
    "for x in 1 2; do python $x; done",
    "if true; then python a.py; fi",
    "(cd x; python a.py)",
    "f() { python a.py; }\nf",
    "cat <<X\nhi\nX",
    "trap cleanup EXIT\npython a.py",
    "time python a.py",
    "source run.sh",
    "echo done",
    "exec python a.py",
    "python a.py \\",
    "python 'a.py",
    "a;;b",
    "! python a.py",
    "",
    "A=1",
]


@pytest.mark.parametrize("command", BECOMES)
def test_the_shell_becomes_the_program(command: str) -> None:
    assert becoming(command) == BECOMES[command]


@pytest.mark.parametrize("command", STAYS)
def test_the_shell_stays(command: str) -> None:
    assert becoming(command) is None


def test_what_is_a_single_command() -> None:
    assert [is_single(text) for text in ("python a.py 'b c'", "a; b", "A=1 b", "a | b", "cd x")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_word_over_several_lines_is_not_indented() -> None:
    assert (indented("a\nb"), indented("a 'b\nc'\nd")) == ("a\n  b", "a 'b\nc'\nd")


PIECES = [
    "echo a", "printf '%s\\n' \"x  y\"", "X=1", "cd /", "cat /etc/hostname", "/bin/echo b", "test -e /x",
    "env A=1 true", "X=2 /bin/echo $X", "false", "sh -c 'exit 3'", "# nothing", "ls /nowhere 2>/dev/null",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.sampled_from(["\n", "; ", " && ", " || "])
)
def test_it_does_the_same(parts: list[str], between: str) -> None:
    command = (between if "# nothing" not in parts else "\n").join(parts)
    own = becoming(command)
    if own is not None:
        assert _ran(own) == _ran(command)


def _ran(command: str) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout
