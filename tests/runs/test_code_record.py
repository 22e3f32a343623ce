"""The record of a program's code, as a job's directory has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.runs import code_record
from hpcdist.runs.code_record import CodeRecord
from tests.runs.test_rundir import made


@pytest.mark.parametrize(
    ("text", "record"),
    [
        (
            '{"source": "folder", "commit": "c1", "dirty": true, "changed": ["a.py"], "more": "b"}',
            CodeRecord("folder", commit="c1", dirty=True, changed=("a.py",)),
        ),
        ('{"source": "here", "folder": "/caf\\udce9", "changed": null}', CodeRecord("here", "/caf\udce9")),
        ('{"commit": "c1", "changed": ["a.py", 3]}', CodeRecord()),
        ('{"commit": 7, "branch": null, "dirty": "yes"}', CodeRecord()),
        ("[]", CodeRecord()),
        ("[" * 100_000, CodeRecord()),
        (None, CodeRecord()),
    ],
)
def test_what_is_damaged_or_missing_is_unknown(text: str | None, record: CodeRecord, tmp_path: Path) -> None:
    run = made(tmp_path)
    if text is not None:
        run.directory.write("code.json", text)
    assert code_record.read(run.directory) == record
