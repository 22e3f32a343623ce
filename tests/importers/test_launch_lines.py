"""Launch lines taken apart, and those that stay as they are."""

from __future__ import annotations

import pytest

from hpcdist.importers.launch_lines import Line, Unclear, take_apart


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("python train.py", None),
        ("", None),
        ("A=1", None),
        ("set -e; python train.py", None),
        ("mpirun a.out", Line("mpirun", "a.out")),
        ("mpirun -m", Line("mpirun", "-m")),
        (
            "NCCL_DEBUG=INFO exec /usr/bin/mpirun -np ${NP} -x A=b -x C \\\n  python 'a b.py' --x=$Y > ",
            None,
        ),
        (
            "B=1 exec /usr/bin/mpirun -np ${NP} -x A=b -x C \\\n  python 'a b.py' --x=$Y",
            Line("mpirun", "python 'a b.py' --x=$Y", np=4, variables={"B": "1", "A": "b"}, passed=("A", "C")),
        ),
        (
            "mpiexec.hydra -n 4 -ppn 2 -genv I_MPI_DEBUG 5 -f /etc/mpi/hostfile -iface eth0 a.out -n 7",
            Line("mpirun", "a.out -n 7", np=4, per_node="2", variables={"I_MPI_DEBUG": "5"},
                 dropped=("-iface eth0",)),
        ),
        (
            "mpirun --map-by node --mca btl ^openib --mca plm_rsh_args '-p 22' --wdir /w a.out",
            Line("mpirun", "a.out", by_node=True, folder="/w", variables={"OMPI_MCA_btl": "^openib"},
                 dropped=("--mca plm_rsh_args -p 22",)),
        ),
        (
            "horovodrun -np 2 --autotune --no-stall-check --cycle-time-ms 3.5 python t.py",
            Line("horovodrun", "python t.py", np=2,
                 knobs={"autotune": "", "no-stall-check": "", "cycle-time-ms": "3.5"}),
        ),
        (
            "torchrun --nproc_per_node=8 --nnodes=2 --node_rank $RANK --master_addr=$MASTER_ADDR t.py --a",
            Line("torchrun", "python -u t.py --a", per_node="8", knobs={"nodes": "2"}),
        ),
        ("python3 -m torch.distributed.run --standalone -m pkg.mod --a",
         Line("torchrun", "python -u -m pkg.mod --a", dropped=("--standalone",))),
        ("torchrun --no-python ./run.sh", Line("torchrun", "./run.sh")),
    ],
)  # fmt: skip
def test_taken_apart(text: str, line: Line | None) -> None:
    knobs = frozenset({"autotune", "stall-check", "cycle-time-ms"})
    try:
        found = take_apart(text, {"NP": "4"}, knobs)
    except Unclear:
        found = None
    assert found == line


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mpirun -np 2", "in which no program is started"),
        ("mpirun -np 2 a : -np 3 b", "which starts several programs"),
        ("mpirun -np $N a", "of which $N is known only when it runs"),
        ("mpirun -np two a", "in which 'two' is no number of processes"),
        ("mpirun --timeout 3 a", "whose option --timeout is not known here"),
        ("mpirun -x", "whose option -x has no value"),
        ("mpirun --map-by ppr:2:socket a", "in which --map-by ppr:2:socket counts by less than a node"),
        ("mpirun a --dir=$(date)", "whose arguments the shell makes, once"),
        ("cd x && mpirun -np 2 a", "which does more than start processes"),
        ("mpirun -x A='b c' -x 'D a", "which does more than start processes"),
    ],
)
def test_as_it_stands(text: str, why: str) -> None:
    with pytest.raises(Unclear) as unclear:
        take_apart(text, {})
    assert str(unclear.value) == why
