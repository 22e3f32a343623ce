"""The stand-in of bsub refuses what the real one does, so that the tests through it mean something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsf.bsub import RefusedError, array, directives, jobs_of
from tests.lsf.state import Config

PLAIN = Config(hosts=("n1", "n2"), slots=16, gpus=4)
CSM = Config(hosts=("n1", "n2"), launch_host="batch1", csm=True)


@pytest.mark.parametrize(
    ("lines", "settings", "said"),
    [
        ("--nnodes 2", CSM, "illegal option -- --nnodes"),
        ("-P a\n#BSUB -nnodes 0", CSM, "-nnodes: bad number '0'"),
        ("-nnodes 2", CSM, "no project specified"),
        ("-P a\n#BSUB -nnodes 2\n#BSUB -R span[ptile=2]", CSM, "cannot be used in easy mode"),
        ("-P a\n#BSUB -nnodes 2\n#BSUB -n 2", CSM, "cannot be used in easy mode"),
        ("-P a\n#BSUB -nnodes 2\n#BSUB -gpu num=2", CSM, "cannot be used in easy mode"),
        ("-alloc_flags smt1\n#BSUB -alloc_flags gpumps", CSM, "-alloc_flags: given twice"),
        ('-P a\n#BSUB -alloc_flags "smt1, gpumps"', CSM, "-alloc_flags: bad flags"),
        ("-nnodes 2", PLAIN, "-nnodes needs CSM"),
        ("-n 64\n#BSUB -R span[ptile=16]", PLAIN, "Too many processors requested"),
        ("-n 2\n#BSUB -gpu num=5", PLAIN, "Too many processors requested"),
        ("-n 2\n#BSUB -gpu 2", PLAIN, "Too many processors requested"),
        ("-W 01:30:00", PLAIN, "01:30:00: Bad RUNLIMIT specification"),
        ("-W 0:00", PLAIN, "0:00: Bad RUNLIMIT specification"),
        ("-J job[0-3]", PLAIN, "Bad job name or index list"),
        ("-J job[1-3", PLAIN, "Bad job name or index list"),
        ("-o nowhere/x", PLAIN, "No such directory"),
        ("-w after:3", PLAIN, "Dependency condition syntax error"),
        ("-wa USR1", PLAIN, "-wa and -wt belong together"),
        ("-q", PLAIN, "-q: option requires an argument"),
        ("-q a b", PLAIN, "'b' is no option"),
    ],
)
def test_refusals(
    lines: str, settings: Config, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RefusedError) as error:
        jobs_of(directives(f"#!/bin/bash\n#BSUB {lines}\n"), settings)
    assert said in str(error.value)


def test_directives_stand_anywhere() -> None:
    assert directives("#!/bin/bash\n#BSUB -q a\ntrue\n#BSUB -J 'b[1-3]'\n##BSUB -x\n") == {
        "-q": "a",
        "-J": "b[1-3]",
    }


def test_arrays() -> None:
    assert array("a[1-7:3,9]%2") == ("a", [1, 4, 7, 9])
    assert array("a") == ("a", [0])
