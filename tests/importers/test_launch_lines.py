"""Launch lines taken apart, and those that stay as they are."""

from __future__ import annotations

import pytest

from hpcdist.base.words import quote
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch, parse_launch_line
from tests.wording import Wording


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("python train.py", None),
        ("", None),
        ("A=1", None),
        ("set -e; python train.py", None),
        ("mpirun a.out", Line("mpirun", "a.out")),
        ("mpirun -n4 a.out", Line("mpirun", "a.out", np=4)),
        ("mpirun -m", None),
        (
            "NCCL_DEBUG=INFO exec /usr/bin/mpirun -np ${NP} -x A=b -x C \\\n  python 'a b.py' --x=$Y > ",
            None,
        ),
        (
            "B=1 exec /usr/bin/mpirun -np ${NP} -x A=b -x C \\\n  python 'a b.py' --x=$Y",
            Line("mpirun", "python 'a b.py' --x=$Y", np=4, variables={"B": "1", "A": "b"}, passed=["C"]),
        ),
        (
            "mpiexec.hydra -n 4 -ppn 2 -genv I_MPI_DEBUG 5 -f /etc/mpi/hostfile -iface eth0 a.out -n 7",
            Line("mpirun", "a.out -n 7", np=4, per_node="2", variables={"I_MPI_DEBUG": "5"},
                 dropped=["-iface eth0"]),
        ),
        (
            "mpirun --map-by node --mca btl ^openib --mca plm_rsh_args '-p 22' --wdir /w a.out",
            Line("mpirun", "a.out", by_node=True, folder="/w", variables={"OMPI_MCA_btl": "^openib"},
                 dropped=["--mca plm_rsh_args -p 22"]),
        ),
        (
            "horovodrun -np 2 --autotune --no-stall-check --cycle-time-ms 3.5 python t.py",
            Line("horovodrun", "python t.py", np=2,
                 knobs={"autotune": None, "no-stall-check": None, "cycle-time-ms": "3.5"}),
        ),
        (
            "torchrun --nproc_per_node=8 --nnodes=2 --node_rank $RANK --master_addr=$MASTER_ADDR t.py --a",
            Line("torchrun", "python -u t.py --a", per_node="8", nodes="2"),
        ),
        ("python3 -m torch.distributed.run --standalone -m pkg.mod --a",
         Line("torchrun", "python -u -m pkg.mod --a", dropped=["--standalone"])),
        ("torchrun --no-python ./run.sh", Line("torchrun", "./run.sh")),
        (
            "/opt/openmpi/bin/mpirun -np 2 --hostfile /generated/hostfile -bind-to none -map-by slot x",
            Line("mpirun", "x", np=2, dropped=["-bind-to none"]),
        ),
        (
            "mpirun -x A=1 -x 'B=a b' -x C -x D=$E/x -x F=\"$G h\" -x \"I=$J\" \\\n  python  'x y.py' \"$Z\"",
            Line("mpirun", "D=$E/x F=\"$G h\" I=\"$J\" python  'x y.py' \"$Z\"",
                 variables={"A": "1", "B": "a b"}, passed=["C"]),
        ),
        (
            "mpirun -x A=$NP/\"${NP}th \\$1\" -x B='$NP' -x C=\\$x -x D=${E:-e} x",
            Line("mpirun", "x", variables={"A": "4/4th $1", "B": "$NP", "C": "$x", "D": "e"}),
        ),
        ("P=$PATH:/x mpirun -x P python x", Line("mpirun", "P=$PATH:/x python x", passed=["P"])),
        (
            "mpirun -mca btl ^openib --gmca a 'b c' -bind-to core --oversubscribe -v x",
            Line("mpirun", "x", variables={"OMPI_MCA_btl": "^openib", "OMPI_MCA_a": "b c"},
                 dropped=["-bind-to core", "--oversubscribe", "-v"]),
        ),
        (
            "mpirun --allow-run-as-root --prefix /usr/lib/mpi -wdir 'a b' x",
            Line("mpirun", "x", folder="a b", dropped=["--allow-run-as-root", "--prefix /usr/lib/mpi"]),
        ),
        ("mpirun --map-by ppr:4:node -n 8 x -np 3", Line("mpirun", "x -np 3", np=8, per_node="4")),
        ("mpirun --map-by ppr:4:node:PE=12:SPAN -rank-by slot x",
         Line("mpirun", "x", per_node="4", dropped=["PE=12:SPAN of --map-by"])),
        ("mpirun -map-by node:PE=4 x", Line("mpirun", "x", by_node=True, dropped=["PE=4 of -map-by"])),
        ("mpirun -map-by slot:PE=4 -rank-by core x",
         Line("mpirun", "x", dropped=["PE=4 of -map-by", "-rank-by core"])),
        ("mpirun -map-by socket:PE=4 x", Line("mpirun", "x", dropped=["-map-by socket:PE=4"])),
        ("mpirun -n 2 -genv A=1 -env 'B=c d' --genv=C=e -genv D x=y -genv E=$F ./prog x",
         Line("mpirun", "E=$F ./prog x", np=2, variables={"A": "1", "B": "c d", "C": "e", "D": "x=y"})),
        ("mpiexec.hydra -n 4 -genv I_MPI_DEBUG=5 hostname",
         Line("mpirun", "hostname", np=4, variables={"I_MPI_DEBUG": "5"})),
        ("mpirun -H a,b x", Line("mpirun", "x", hosts="a,b", dropped=["-H a,b"])),
        ("mpiexec -genvlist A,B -bootstrap ssh -n 2 x",
         Line("mpirun", "x", np=2, passed=["A", "B"], dropped=["-bootstrap ssh"])),
        ("mpirun '-np' 2 '--wdir=a b' \"--mca\" x y z", Line("mpirun", "z", np=2, folder="a b",
                                                           variables={"OMPI_MCA_x": "y"})),
        ("mpirun -x A=$B -x A=1 -x C=1 -x C=$D x", Line("mpirun", "C=$D x", variables={"A": "1"})),
        ("mpirun -mca btl tcp --mca btl self -x OMPI_MCA_a=b -mca a c x",
         Line("mpirun", "x", variables={"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_a": "c"})),
        ("mpirun -npernode 04 x", Line("mpirun", "x", per_node="4")),
        ("horovodrun -np=2 --timeline-filename t --fusion 32 --thread-affinity -1 python t.py",
         Line("horovodrun", "python t.py", np=2,
              knobs={"timeline-filename": "t", "fusion-threshold-mb": "32", "thread-affinity": "-1"})),
        ("horovodrun --timeline-filename='' --tcp --log-without t.py",
         Line("horovodrun", "t.py", knobs={"timeline-filename": "", "tcp": None,
                                           "log-without-timestamp": None})),
        ("horovodrun --blacklist-cooldown-range 1 2 --output-filename o --jsrun t.py",
         Line("horovodrun", "t.py",
              dropped=["--blacklist-cooldown-range 1 2", "--output-filename o", "--jsrun"])),
        ("torchrun --nproc-per 4 --max_restarts=2 -t 3 --log-dir=l --signals-to-handle SIGTERM t.py",
         Line("torchrun", "python -u t.py", per_node="4", restarts="2",
              dropped=["-t 3", "--log-dir l", "--signals-to-handle SIGTERM"])),
        ("mpirun bash -c 'cd a; echo $(hostname) # b'",
         Line("mpirun", "bash -c 'cd a; echo $(hostname) # b'")),
    ],
)  # fmt: skip
def test_launch_lines_are_parsed(text: str, line: Line | None) -> None:
    try:
        found = parse_launch_line(text, {"NP": "4"})
    except UnsupportedLaunch:
        found = None
    assert found == line


@pytest.mark.parametrize(
    "text",
    [
        "mpirun -np 2",
        "mpirun -np 2 a : -np 3 b",
        "mpirun -np $N a",
        "mpirun -np two a",
        "mpirun --timeout 3 a",
        "mpirun -x",
        'mpirun "--wdir=$A" a',
        "horovodrun -np 2 --time t python x",
        "horovodrun --autotune=yes python x",
        "horovodrun --log-level --verbose python x",
        "horovodrun --config-file c.yml python x",
        "mpirun -genv A",
        "mpirun --map-by ppr:2:socket a",
        "mpirun a --dir=$(date)",
        "mpirun a --id=$$",
        "mpirun -x A=$(date) a",
        "mpirun -x A-B a",
        'mpirun -wdir "$A" a',
        "cd x && mpirun -np 2 a",
        "mpirun python x > log",
        "mpirun python x # np",
        "mpirun a\nmpirun b",
        "mpirun -x A='b c' -x 'D a",
    ],
)
def test_launch_lines_without_equivalent_are_unsupported(text: str, wording: Wording) -> None:
    with pytest.raises(UnsupportedLaunch) as unclear:
        parse_launch_line(text, {})
    wording(str(unclear.value))


@pytest.mark.parametrize(
    "word",
    ["t", "yes", "off", "null", "1e3", "0x10", "010", "1_000", "2024-01-31", "-1", "", "a b", "'", "$x"],
)
def test_values_stay_as_they_were_written(word: str) -> None:
    value = quote(word)
    assert parse_launch_line(f"mpirun -x A={value} -mca b {value} -wdir {value} x", {}) == Line(
        "mpirun", "x", folder=word, variables={"A": word, "OMPI_MCA_b": word}
    )
