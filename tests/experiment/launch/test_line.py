from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.experiment.launch.line import user_launch
from hpcdist.experiment.launch.problems import problems_of
from tests.experiments import experiment


@pytest.mark.parametrize(
    ("command", "program", "tasks"),
    [
        ("mpirun -np 4 python train.py", "mpirun", 4),
        ("mpirun -n 4 python train.py", "mpirun", 4),
        ("mpirun --np 4 python train.py", "mpirun", 4),
        ("mpirun --np=4 python train.py", "mpirun", 4),
        ("mpirun python train.py -n 4", "mpirun", None),
        ("mpirun ./a.out -n 4", "mpirun", None),
        ("mpirun -genv A=1 ./a.out -n 4", "mpirun", None),
        ("mpirun -genv A 1 -n 4 ./a.out", "mpirun", 4),
        ("mpirun --oversubscribe ./a.out -n 4", "mpirun", None),
        ("mpirun -np $N python train.py", "mpirun", None),
        ("mpirun -np $(nproc) python train.py", "mpirun", None),
        ("mpirun -np 2 ./a : -np 4 ./b", "mpirun", None),
        ("mpirun --allow-run-as-root -H a:2,b:2 -np 4 python train.py", "mpirun", 4),
        ("mpirun -mca btl tcp,self -x PATH -np 4 python train.py", "mpirun", 4),
        ('mpirun --hostfile "$HPCDIST_HOSTFILE" -np 4 python train.py', "mpirun", 4),
        ("mpirun --hostfile /home/me/hosts -np 4 python train.py", "mpirun", 4),
        ("/opt/openmpi/bin/mpirun -np 4 python train.py", "mpirun", 4),
        ("'mpirun' \\\n  -np 4 \\\n  python train.py", "mpirun", 4),
        ("mpiexec -n 8 ./a.out", "mpiexec", 8),
        ("mpiexec.hydra -n 8 ./a.out", "mpiexec.hydra", 8),
        ("horovodrun -np 4 -H localhost:4 python train.py", "horovodrun", 4),
        ("horovodrun --num-proc 4 python train.py", "horovodrun", 4),
        ("srun -n4 python train.py", "srun", 4),
        ("srun -N 2 --ntasks=8 --label python train.py", "srun", 8),
        ("srun python train.py", "srun", None),
        ("mpirun", "mpirun", None),
        ("A=1 B='x y' mpirun -np 2 a", "mpirun", 2),
        ("env A=1 mpirun -np 2 a", "mpirun", 2),
        ("exec mpirun -np 2 a", "mpirun", 2),
        ("time mpirun -np 2 a", "mpirun", 2),
        ("cd x && mpirun -np 2 a", "mpirun", 2),
        ("cd x; mpirun -np 2 a", "mpirun", 2),
        ("module load x\nmpirun -np 2 a", "mpirun", 2),
        ("# by mpi\nmpirun -np 2 a", "mpirun", 2),
        ("(cd x; mpirun -np 2 a)", "mpirun", 2),
        ("if true; then mpirun -np 2 a; fi", "mpirun", 2),
        ("for i in 1 2; do mpirun -np 2 a; done", "mpirun", 2),
        ("mpirun -np 2 a | tee log", "mpirun", 2),
        ("echo 'a b' && mpirun -np 2 a", "mpirun", 2),
        ("timeout 3600 mpirun -np 2 a", "mpirun", 2),
        ("timeout -k 5 --signal=TERM 1h mpirun -np 2 a", "mpirun", 2),
        ("if mpirun -np 2 a; then b; fi", "mpirun", 2),
        ("while ! mpirun -np 2 a; do sleep 1; done", "mpirun", 2),
        ("until mpirun -np 2 a; do sleep 1; done", "mpirun", 2),
        ("numactl -l mpirun -np 2 a", "mpirun", 2),
        ("numactl -m 0 --cpunodebind=0 mpirun -np 2 a", "mpirun", 2),
        ("/usr/bin/nice -n 5 mpirun -np 2 a", "mpirun", 2),
        ("env -u X A=1 mpirun -np 2 a", "mpirun", 2),
        ("time -p mpirun -np 2 a", "mpirun", 2),
        ("stdbuf -oL -e L mpirun -np 2 a", "mpirun", 2),
        ("taskset -c 0-3 mpirun -np 2 a", "mpirun", 2),
        ("A=1 nohup exec timeout 5 nice mpirun -np 2 a", "mpirun", 2),
        ("cat <<E >x\nsrun a\nE\nmpirun -np 2 a", "mpirun", 2),
        ("cat <<'E' <<-F\nsrun a\nE\nsrun b\n\tF\nmpirun -np 2 a", "mpirun", 2),
        ("cat <<<word\nmpirun -np 2 a", "mpirun", 2),
        ("conda run -n e --no-capture-output mpirun -np 2 a", "mpirun", 2),
        ("uv run --with x horovodrun -np 2 a", "horovodrun", 2),
        ("apptainer exec --nv --bind /a:/b torch.sif mpirun -np 2 a", "mpirun", 2),
        ("bash -lc 'cd x && mpirun -np 2 a'", "mpirun", 2),
        ('A="-np 2 -H $H"; mpirun $A a', "mpirun", 2),
        ("mpirun -np $((1 + (2 * 3))) a", "mpirun", None),
        ("flux run -n2 a", "flux run", 2),
        ("python -m horovod.runner.launch -np 2 a", "horovodrun", 2),
        ("colossalai run --nproc_per_node 2 t.py", "colossalai run", None),
    ],
)
def test_launches_that_run_once(command: str, program: str, tasks: int | None) -> None:
    launch = user_launch(command)
    assert launch is not None
    assert (launch.program, launch.runs, launch.tasks) == (program, "once", tasks)


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node=4 train.py",
        "torchrun_jsc --nproc_per_node=gpu train.py",
        "OMP_NUM_THREADS=1 torchrun train.py",
        "cd x && /opt/venv/bin/torchrun train.py",
        "python -m torch.distributed.launch --nproc_per_node=4 train.py",
        "python3.11 -u -m torch.distributed.run train.py",
    ],
)
def test_launches_that_run_once_per_node(command: str) -> None:
    launch = user_launch(command)
    assert launch is not None
    assert (launch.is_torch, launch.runs, launch.tasks) == (True, "per_node", None)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "python train.py",
        "python train.py --launcher mpirun",
        "python train.py mpirun -np 4",
        "echo mpirun -np 4",
        "echo 'a; mpirun -np 4'",
        'echo "a && mpirun -np 4"',
        "echo a\\;mpirun",
        "python -c 'import os\nmpirun = 4'",
        "VERSION=$(mpirun --version) python train.py",
        "python train.py `which mpirun`",
        "python train.py # mpirun -np 4",
        "python train.py #; mpirun -np 4",
        "bash mpirun.sh",
        "./mpirun.py",
        "python -m torch train.py",
        "python train.py -m torch.distributed.run",
        "python -c '' -m torch.distributed.run",
        "mpirunner",
        "A=mpirun",
        "echo 'half a quotation; mpirun",
        "cat >x <<E\nmpirun foo\nE\npython x",
        'python - <<"E"\nmpirun foo\nE',
        "cat<<\\E\nmpirun foo\nE\n",
        "timeout mpirun",
        "nice -n mpirun a",
    ],
)
def test_ordinary_programs(command: str) -> None:
    assert user_launch(command) is None


@given(st.text("mpirun -np4;&|()\n'\"\\$`{}#=<", max_size=40))
def test_any_text_is_read(command: str) -> None:
    user_launch(command)


@pytest.mark.parametrize(
    ("command", "tasks"),
    [
        ("srun -n1 mkdir x\nsrun -n 8 python t.py\nsrun -n1 rm x", 8),
        ("mpirun -np 1 hostname && mpirun python t.py", None),
        ("srun torchrun --nnodes 2 t.py", None),
    ],
)
def test_largest_of_several_launches_is_used(command: str, tasks: int | None) -> None:
    launch = user_launch(command)
    assert launch is not None
    assert (launch.runs, launch.tasks) == ("once", tasks)


_WORDS = ("mpirun", "torchrun", "bash -c", "eval", "A=$B", "$A", "-H", "--hostfile", "=", "a:2,b", "'", ";")


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join))
def test_any_launch_line_is_read(command: str) -> None:
    list(problems_of(experiment(run={"cmd": command or "x"})))


def test_heredocs_without_an_end() -> None:
    launch = user_launch("cat <<E\n" * 2000 + "mpirun -np 2 a\ncat <<F\nsrun b\nF\n")
    assert launch is not None
    assert (launch.program, launch.tasks) == ("mpirun", 2)


def test_variables_that_double_each_other() -> None:
    doubled = "\n".join(f"A{number + 1}=$A{number}$A{number}" for number in range(60))
    launch = user_launch(f"A0=x\n{doubled}\nmpirun -H $A60 -np $A3 a")
    assert launch is not None
    assert [option.value for option in launch.options][1:] == ["x" * 8]


def test_a_line_that_is_too_long_to_be_shown() -> None:
    launch = user_launch(f"mpirun {'-x A=1 ' * 100} a")
    assert launch is not None
    assert launch.line("--hostfile x") == "... --hostfile x ..."
