"""Variables that depend on what the program links, by the runtime and a real loader."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plans import planned
from tests.script.test_runtime import in_job

LIBRARY = "libselinux.so"
UNKNOWN = (
    "hpcdist: whether {} is linked with libselinux.so is not known, so X is not set; if it is, set it by "
    "environment.env_vars"
)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("build/simulate --n=1", "0"),
        ("cd build && ./simulate", "0"),
        ("cd build\ncd ../other\n./simulate", "0"),
        ('B=build; "$B"/simulate', "0"),
        ("srun -n 4 ${TOP}/build/simulate", "0"),
        ("./run.sh 4", "0"),
        ("bash run.sh", "0"),
        ("A=1 build/simulate", "0"),
        ("true\n# build/simulate\nprintf x", "1"),
        ("./script.py", "1"),
        ("printf x 2>&1 | cat &>/dev/null", "1"),
        ("$WHERE/simulate", f"{UNKNOWN.format('$WHERE/simulate')}\n1"),
        ("cd elsewhere; ./simulate && ./other", f"{UNKNOWN.format('./other')}\n1"),
    ],
)
def test_a_program_is_found_as_the_command_finds_it(tmp_path: Path, command: str, answer: str) -> None:
    (tmp_path / "build").mkdir()
    shutil.copy("/bin/ls", tmp_path / "build/simulate")
    for name, text in (
        ("run.sh", "#!/bin/bash\ncd build\nexec ./simulate $1\n"),
        ("script.py", "#!python\nbuild/simulate\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "command.sh").write_text(f"trap 'exit $(($? ? $? : 143))' TERM INT HUP\n{command}")
    line = f'cd "{tmp_path}"; TOP=$PWD; linked {LIBRARY} X 2>&1; echo $?'
    assert in_job(planned(), tmp_path, line).rstrip() == answer
