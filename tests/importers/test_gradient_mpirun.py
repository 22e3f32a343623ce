# ruff: noqa: E501 - a command is one line
"""The mpirun of a master command, taken apart or left as it stands."""

from __future__ import annotations

import pytest

from hpcdist.importers.gradient.mpirun import Line, taken_apart, with_hostfile

LINES = {
    "mpirun python x.py": Line("python x.py"),
    "/opt/openmpi/bin/mpirun -np 2 --hostfile /generated/hostfile -bind-to none -map-by slot python x.py": Line(
        "python x.py", tasks="2", hosts="/generated/hostfile"
    ),
    "mpirun -x A=1 -x 'B=a b' -x C -x D=$E/x -x F=\"$G h\" \\\n  python  'x y.py' \"$Z\"": Line(
        'D=$E/x F="$G h" python \'x y.py\' "$Z"', sets=(("A", "1"), ("B", "a b")), named=("C",)
    ),
    "mpirun -mca btl ^openib --gmca a 'b c' -bind-to core --oversubscribe -v x": Line(
        "x",
        args=("--mca", "btl", "^openib", "--gmca", "a", "b c", "--bind-to", "core", "--oversubscribe", "-v"),
    ),
    "mpirun --allow-run-as-root --prefix /usr/lib/mpi -wdir 'a b' x": Line(
        "x", folder="'a b'", dropped=("--allow-run-as-root", "--prefix /usr/lib/mpi")
    ),
    "mpirun --map-by ppr:4:node -n 8 x -np 3": Line("x -np 3", tasks="8", each="4"),
    "mpiexec -f /generated/hostfile -ppn 2 -n 4 -genv I_MPI_DEBUG 5 ./a.out": Line(
        "./a.out", tasks="4", each="2", hosts="/generated/hostfile", sets=(("I_MPI_DEBUG", "5"),)
    ),
    "mpirun -H a,b x": Line("x", hosts="a,b"),
    "mpirun bash -c 'cd a; echo $(hostname) # b'": Line("bash -c 'cd a; echo $(hostname) # b'"),
}
AS_THEY_STAND = {
    "pip install -r x && mpirun python y": "it is more than one command",
    "mpirun -np 2 pip install x && python y": "it is more than one command",
    "mpirun python x > log": "it is more than one command",
    "mpirun python $(which x)": "it is more than one command",
    "mpirun python `which x`": "it is more than one command",
    "mpirun python x # np": "it is more than one command",
    "mpirun python 'x": "it is more than one command",
    "mpirun a\nmpirun b": "it is more than one command",
    "": "it does not begin with mpirun",
    "A=1 mpirun x": "it does not begin with mpirun",
    "horovodrun -np 2 x": "it does not begin with mpirun",
    "mpirun": "it starts no program",
    "mpirun -np 2": "it starts no program",
    "mpirun -np 1 a : -np 2 b": "it starts several programs",
    "mpirun -np": "hpcdist's own launch does not know its -np",
    "mpirun -mca a": "hpcdist's own launch does not know its -mca a",
    "mpirun --map-by node x": "hpcdist's own launch does not know its --map-by node",
    'mpirun -x "A=$B" x': "hpcdist's own launch does not know its -x A=$B",
    "mpirun -x A-B x": "hpcdist's own launch does not know its -x A-B",
    "mpirun --rankfile r x": "hpcdist's own launch does not know its --rankfile r",
}


@pytest.mark.parametrize("text", LINES)
def test_a_launch_is_taken_apart(text: str) -> None:
    assert taken_apart(text) == LINES[text]


@pytest.mark.parametrize("text", AS_THEY_STAND)
def test_what_is_more_than_a_launch_stays(text: str) -> None:
    assert taken_apart(text) == AS_THEY_STAND[text]


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("cat /generated/hostfile", 'cat "$HPCDIST_HOSTFILE"'),
        ("x --hosts=/generated/hostfile", 'x --hosts="$HPCDIST_HOSTFILE"'),
        ("bash -c 'cat /generated/hostfile'", "bash -c 'cat '\"$HPCDIST_HOSTFILE\"''"),
        ('echo "a /generated/hostfile"', 'echo "a $HPCDIST_HOSTFILE"'),
        (
            "cat /generated/hostfile.bak /generated/hostfiles",
            "cat /generated/hostfile.bak /generated/hostfiles",
        ),
        ("echo \\' /generated/hostfile", 'echo \\\' "$HPCDIST_HOSTFILE"'),
        ("echo 'half /generated/hostfile", 'echo \'half "$HPCDIST_HOSTFILE"'),
    ],
)
def test_the_hostfile_is_hpcdists_own(text: str, ours: str) -> None:
    assert with_hostfile(text) == ours
