from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.experiment.shell_words import (
    START,
    expand,
    heredoc_lines,
    simple_commands,
    single_command,
    with_start,
)


@pytest.mark.parametrize(
    "command",
    [
        "source venv/bin/activate\n@\npython x.py",
        ". venv/bin/activate && @ && python x.py",
        "source venv/bin/activate; @\npython x.py",
        "set -euo pipefail\n# the environment\nexport A=1\nsource $A/activate\n\n@\npython x.py | tee log",
        "cd repo && source venv/bin/activate && @ && exec python x.py",
        "if [ -d venv ]; then\n  source venv/bin/activate\nelse\n  module load python\nfi\n@\npython x.py",
        "source venv/bin/activate || exit 1\n@\npython x.py",
        'eval "$(conda shell.bash hook)"\nconda activate e\nX=1 Y=2\n@\nX=3 python x.py\necho done',
        "export PATH=$PWD/bin:$PATH\n@\npython x.py",
        "PATH=/a:$PATH\n@\npython x.py",
        "module load a\nml b; @\nfor i in 1 2; do python x.py; done",
        "source a\n@\n(cd x; python x.py)",
        "source a && @ && { python x.py; }",
        "source a\n@\nif true; then python x.py; fi",
        "source a\n@\nsource b | tee log",
        "source a\n@\nsource b || python x.py",
        "source a\n@\nf() { python x.py; }\nf",
        "source a; : <<X\n$y\nX\nsource b\n@\npython x.py",
    ],
)
def test_processes_start_behind_the_lines_that_set_the_shell_up(command: str) -> None:
    assert with_start(command.replace("@ && ", "").replace("@\n", "")) == command.replace("@", START)


@pytest.mark.parametrize(
    "command",
    [
        "python x.py",
        "set -e\nexport A=1\ncd x\npython x.py",
        "A=1 python x.py",
        "python a.py\nsource b\npython x.py",
        "source x.sh",
        "source a | python x.py",
        "source a & python x.py",
        "source <(a)\npython x.py",
        "source a || python x.py",
        "if source a; then python x.py; fi",
        "[[ -e a && -e b ]] && source a\npython x.py",
        "eval 'python x.py'\nsource a\npython x.py",
        "(source a; python x.py)",
        f"source a\ntrue && {START}\npython x.py",
        "",
    ],
)
def test_other_commands_stay_as_they_are(command: str) -> None:
    assert with_start(command) == command


@given(
    st.lists(
        st.sampled_from(
            ["source ./v", "python", "x=1", "if", "then", "fi", "&&", "||", ";", "\n", "|", "&", "(", ")",
             "{", "}", "'a b'", "$(b)", "<(c)", "[[", "]]", "<<E", "E", "#"]
        ),
        max_size=12,
    ).map(" ".join)
)  # fmt: skip
def test_what_bash_can_read_it_still_can(text: str) -> None:
    found = with_start(text)
    assert found.replace(f"{START} && ", "").replace(f"{START}\n", "") == text
    if found != text:
        before, after = (
            subprocess.run(
                ["bash", "-n"], input=given, text=True, capture_output=True, check=False
            ).returncode
            for given in (text, found)
        )
        assert before or not after


def test_the_same_program_runs(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("x=1\n")
    text = with_start('. ./v && y=2\nexpr "$x$y"')
    done = subprocess.run(
        ["bash", "-c", f"{START}() {{ :; }}\n{text}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (START in text, done.stdout) == (True, "12\n")


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a --lr={{ lr }} b{1,2} {c,d}", [(("a", "--lr={{", "lr", "}}", "b{1,2}", "{c,d}"), ())]),
        ("f() { a b; }\n{ c; } && (d)", [(("f",), ()), (("a", "b"), ()), (("c",), ()), (("d",), ())]),
        ("A=(x\n # no\n 'y z' $D)\nb", [((), (("A", " x y z $D"),)), (("b",), ())]),
        ("export A=(1 2)", [(("export", "A= 1 2"), ())]),
    ],
)
def test_simple_commands(
    text: str, commands: list[tuple[tuple[str, ...], tuple[tuple[str, str], ...]]]
) -> None:
    assert [(found.words, found.assigned) for found in simple_commands(text)] == commands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" a \\\n 'b c' ", [("a", 1), ("'b c'", 6)]),
        ("a '>' {b}", [("a", 0), ("'>'", 2), ("{b}", 6)]),
        ("a > b", []),
        ("a # b", []),
        ("a\nb", []),
        ("a; b", []),
        ("a 'b", []),
        ("a <<E\nb\nE", []),
    ],
)
def test_single_command(text: str, words: list[tuple[str, int]]) -> None:
    assert single_command(text) == words


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a'b $x'\"c $x\"\\ d$x", "ab $xc 1 d1"),
        ('"\\$x ${x}"', "$x 1"),
        ('$(a "b c")$y${x:-2}`d`', '$(a "b c")$y${x:-2}`d`'),
        ("'half", "'half"),
        ("$", "$"),
    ],
)
def test_expansion_of_known_variables(word: str, value: str) -> None:
    assert expand(word, {"x": "1"}) == value


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a <<E\n#!x\n b\nE\nc\n", {2, 3, 4}),
        ("a <<-'E' | b\n\tx\n\tE\n", {2, 3}),
        ("x=$((1<<4))\n#a\n4\n", set()),
        ("# <<E\na <<<E\nE\n", set()),
        ("a <<E\nno end\n", set()),
    ],
)
def test_lines_of_heredocs(text: str, lines: set[int]) -> None:
    assert heredoc_lines(text) == lines
