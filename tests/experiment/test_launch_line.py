"""Launches that the user wrote, and the hosts that they name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.experiment.launch_line import launch_problems, user_launch
from hpcdist.loading import load
from tests.experiments import experiment
from tests.wording import Wording


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


def test_options_of_torchrun_jsc_are_those_of_torchrun() -> None:
    launch = user_launch("torchrun_jsc --nnodes=2 --rdzv_endpoint=node1:29500 train.py")
    assert launch is not None
    assert [(option.kind, option.value) for option in launch.options] == [
        ("nodes", "2"),
        ("endpoint", "node1:29500"),
    ]


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
    list(launch_problems(experiment(run={"cmd": command or "x"})))


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


H = '"$HPCDIST_HOSTFILE"'
KNOWN_LATER = "its nodes are known only when it starts"


def found(command: str | list[str], **data: Any) -> list[Problem]:
    return list(launch_problems(experiment(run={"cmd": command}, **data)))


@pytest.mark.parametrize(
    "command",
    [
        "mpirun -np 4 -H server1:2,server2:2 python t.py",
        "mpirun -np 4 --host a,b -x A=1 ./a.out -f in",
        "mpirun -host gpu39:2,gpu44:2 -n 4 python t.py",
        "mpirun -H master,client1 -np 3 ./m",
        "mpirun --host=a:4 -np 4 ./m",
        "mpirun -H a -v -tag-output env A=1 x",
        "mpirun -H a*2,b*2 -np 4 x",
        "mpiexec -n 4 -hosts a,b ./x",
        "mpiexec.hydra -hosts a,b -ppn 2 ./x",
        "horovodrun -np 4 -H a:2,b:2 python t.py",
        "horovodrun -np 8 --hosts a:4,b:4 -p 22 python t",
        "horovodrun -np 8 -Ha:4,localhost:4 python t",
        "horovodrun --gloo -np 2 -H 10.0.0.1:1,10.0.0.2:1 --verbose python t",
        "deepspeed --include worker-0@worker-1:0,1 t.py",
        'deepspeed --include="node1:0,1@node2" t.py --ds',
        "deepspeed --exclude worker-1:0 --num_gpus 2 t.py",
        f"deepspeed --hostfile={H} --master_addr node1 t.py",
        "colossalai run --host h1,h2 --nproc_per_node 2 t.py",
        "srun -w node01,node02 -n 4 python t.py",
        "srun --nodelist=gpu[01-04] --gres=gpu:1 ./run.sh a b c",
        "srun -N2 -n2 -wnode1 hostname",
        "aprun -n 4 -L 12,13 ./a",
        "torchrun --nnodes 2 --rdzv_id 1 --rdzv_endpoint 192.168.1.5:29500 t.py",
        "torchrun --nnodes=2 --node_rank=$RANK --master-addr=node1 --master-port 1 t.py",
        "python -m torch.distributed.launch --nnodes=2 --node_rank=$R --master_addr='node1' t.py",
        "uv run accelerate launch --main_process_ip 10.1.2.3 --num_machines 2 t.py",
        "fabric run --main-address node7 --devices 4 t.py",
        "msrun --worker_num=8 --master_addr=10.1.2.3 t.py",
        "python -m paddle.distributed.launch --ips a,b t.py",
        "conda run -n e --no-capture-output mpirun -H a,b x",
        "mpirun -H a,b x 2>&1 | tee log",
        "mpirun -H a,b x < in > out",
        "A=1 time mpirun -H a,b x",
        "cd x && mpirun -H a,b x | tee log",
        "bash -c 'mpirun -H a,b x'",
        'bash -lc "cd x; mpirun -H a,b x"',
        "eval mpirun -H a,b x",
        "HOSTS=a:2,b:2\nhorovodrun -np 4 -H $HOSTS t",
        'export H1=a H2=b\nmpirun -H "$H1:2,${H2}:2" x',
        'RUN="horovodrun -np 4 -H a:2,b:2"\n$RUN python t.py',
        "srun -n 2 torchrun --nnodes 2 --rdzv_endpoint node1:29500 t.py",
        "srun -n 2 bash -c 'torchrun --master_addr node1 t.py'",
        "ARGS='-H a,b -np 4'\nmpirun $ARGS x",
        "mpirun -H $(hostname),node2 x",
    ],
)
def test_hosts_that_are_not_of_the_job_are_errors(command: str, wording: Wording) -> None:
    [problem] = found(command)
    assert problem.severity == "error"
    wording(str(problem))


@pytest.mark.parametrize(
    "command",
    [
        "mpirun --hostfile /home/me/hosts -np 4 x",
        "mpirun -hostfile hosts.txt -np 24 python3 m.py | tee o",
        "mpirun -machinefile machines -np 4 ./array_sum",
        "mpirun --hostfile=~/hosts x",
        "mpirun --default-hostfile h x",
        "mpirun --mca orte_default_hostfile /h -np 4 a",
        "mpiexec -f ./hosts -n 5 ./app1 -m A -v b",
        "mpiexec.hydra -f /mirror/nodes.conf ./x",
        "mpirun_rsh -np 4 -hostfile hosts ./a",
        "horovodrun -np 16 --hostfile /data/hosts -p 1 python t",
        "deepspeed --hostfile hostfile --num_nodes 2 t.py",
        "deepspeed -H hostfile t.py",
        "accelerate launch --deepspeed_hostfile h t.py",
        "colossalai run --nproc_per_node 4 --hostfile ./h t.py",
        "srun -F nodes.txt x",
        "srun -w ./nodes.txt x",
        "HOSTFILE=hosts\nmpirun --hostfile $HOSTFILE x",
    ],
)
def test_hostfiles_that_are_not_of_the_job_are_errors(command: str, wording: Wording) -> None:
    [problem] = found(command)
    assert problem.severity == "error"
    wording(str(problem))


@pytest.mark.parametrize(
    "command",
    [
        'mpirun --hostfile "$HPCDIST_HOSTFILE" -np 4 x',
        "mpirun -machinefile $PBS_NODEFILE -np 4 x",
        "mpirun -machinefile $TMP/machines -n 8 x",
        "mpirun -hostfile /tmp/hosts.$MY_JOB x",
        "horovodrun -np 16 -hostfile /home/$ME/../x -p 1 python t",
        "mpirun -H localhost:4 -np 4 x",
        "mpirun -H 127.0.0.1 x",
        "mpirun -H $(hostname) x",
        "mpirun -H `hostname`:4 x",
        "mpirun --host ${HOSTS// /,} x",
        "mpirun --host $(scontrol show hostnames | paste -sd,) x",
        "mpirun -H +n0,+n1 x",
        "mpirun --hostfile <(scontrol show hostnames) x",
        "./makes_hosts.sh && test -s /tmp/hosts && mpirun --hostfile /tmp/hosts x",
        "scontrol show hostnames > hosts && mpirun --hostfile hosts x",
        "./hosts.sh | tee my.hosts\nmpirun --hostfile my.hosts x",
        "F=hosts\nfor n in $NODES; do echo $n slots=2 >> $F; done\nmpirun --hostfile $F x",
        "if [ $N = 1 ]; then A=localhost; else A=node1; fi\ntorchrun --master_addr $A t.py",
        "mpirun ./solver -H input -f hosts",
        "mpirun -np 4 python t.py --hostfile h --host h",
        "mpirun -np 4 --unknown value ./solver -H x",
        "deepspeed --include localhost:0,1 t.py",
        'deepspeed --hostfile="" --include localhost:0 t.py',
        "deepspeed t.py --hostfile h",
        "srun -x node7 -n 4 t",
        "srun -w $SLURMD_NODENAME hostname",
        "torchrun --standalone t.py",
        "torchrun --rdzv_backend=etcd --rdzv_endpoint=192.168.180.12:2379 t.py",
        "torchrun --rdzv_endpoint=localhost:0 t.py --master_addr x",
        "torchrun --rdzv_endpoint=[::1]:29400 t.py",
        "torchrun -m pkg.mod --master_addr node1",
        "accelerate launch -m lmms_eval --main_process_ip x",
        "python t.py --host server1 --hostfile f",
        "echo mpirun -H a,b",
        "# mpirun -H a,b\ntrue",
        "python serve.py -H 0.0.0.0",
    ],
)
def test_hosts_of_the_job(command: str) -> None:
    assert found(command) == []


def test_hostfiles_of_other_systems_are_replaced() -> None:
    for file, system in (
        ("/generated/hostfile", "Gradient"),
        ("/etc/mpi/hostfile", "Kubeflow"),
        ("/job/hostfile", "DeepSpeed"),
    ):
        loaded = load.load_experiment(
            source.parse(f"run:\n  cmd: |\n    cat {file}\n    mpirun --hostfile {file} x\n", "exp.yml")
        )
        assert loaded.experiment.run.cmd == f"cat {H}\nmpirun --hostfile {H} x\n"
        assert loaded.problems == (
            Problem(
                f"{file} is {system}'s hostfile; the job's own is used instead",
                ("run", "cmd"),
                f"write {H}",
                "warning",
                Place("exp.yml", 3, 9),
                file,
            ),
        )
    listed = load.load_experiment(
        source.parse("run: {cmd: [cd x, mpirun -f /generated/hostfile x]}", "exp.yml")
    )
    assert listed.experiment.run.cmd == ("cd x", f"mpirun -f {H} x")


def test_place_of_a_problem_is_the_line_of_the_command() -> None:
    text = "run:\n  cmd: |\n    cd x\n    horovodrun -np 4 \\\n      -H server1:2,server2:2 python t.py\n"
    with pytest.raises(ConfigError) as refused:
        load.load_experiment(source.parse(text, "exp.yml"))
    assert refused.value.problems == (
        Problem(
            f"-H of horovodrun names server1, server2, which are not hosts of this job: {KNOWN_LATER}",
            ("run", "cmd"),
            f"write `horovodrun -np 4 --hostfile {H} python t.py`",
            place=Place("exp.yml", 5, 10),
            word="server1:2,server2:2",
        ),
    )


def test_hint_corrects_all_hosts_of_a_line(wording: Wording) -> None:
    wording(map(str, found("deepspeed --hostfile /h --master_addr 10.0.0.1 t.py")))


@pytest.mark.parametrize(
    "command",
    [
        "OMPI_MCA_orte_default_hostfile=/h mpirun x",
        "export MASTER_ADDR=node1 MASTER_PORT=1\npython t.py",
        "env PET_RDZV_ENDPOINT=node1:29500 torchrun t.py",
    ],
)
def test_variables_that_the_command_sets(command: str, wording: Wording) -> None:
    wording(map(str, found(command)))


@pytest.mark.parametrize(
    "command",
    [
        "export MASTER_ADDR=$(scontrol show hostnames | head -n1)\npython t.py",
        "MASTER_ADDR=${MASTER_ADDR:-node1} python t.py",
        "export MASTER_ADDR=localhost\npython t.py",
        "scontrol show hostnames >hosts\nexport SLURM_HOSTFILE=hosts\nsrun x",
        "export OMP_NUM_THREADS=1\npython t.py",
    ],
)
def test_valid_variables(command: str) -> None:
    assert found(command) == []


def test_hint_for_variables_of_the_file_uses_export(wording: Wording) -> None:
    values = {"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "MASTER_ADDR": "node1", "A": "node1"}
    wording(map(str, found("mpirun x", environment={"env_vars": values})))
    hosts = found("horovodrun -np 4 -H $HOSTS x", environment={"env_vars": {"HOSTS": "a:2,b:2"}})
    wording(map(str, hosts))


@pytest.mark.parametrize("directive", ["--nodelist=node1,node2", "-w node1", "-l host=node1", "-m node1"])
def test_hosts_are_allowed_if_directives_choose_the_nodes(directive: str) -> None:
    assert found("mpirun -H node1:2,node2:2 x", batch={"directives": [directive]}) == []


def test_number_of_problems_is_limited() -> None:
    assert len(found("mpirun -H a,b x\n" * 1000)) == len(found(f"mpirun {'-H a ' * 1000} x")) == 20


def test_a_list_of_commands_is_one_command(wording: Wording) -> None:
    wording(map(str, found(["A=a,b", "mpirun -H $A x"])))


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ("torchrun --master_port=69420 t.py", {}),
        ("torchrun --rdzv_endpoint $A:99999 t.py", {}),
        ("accelerate launch --main_process_port 65536 t.py", {}),
        ("ray start --port=70000", {}),
        ("MASTER_PORT=70000 python t.py", {}),
        ("python t.py", {"MASTER_PORT": 99999, "PET_RDZV_ENDPOINT": "$A:70000"}),
    ],
)
def test_ports_that_do_not_exist(command: str, env: dict[str, Any], wording: Wording) -> None:
    made = experiment(run={"cmd": command}, environment={"env_vars": env})
    wording(list(map(str, launch_problems(made))))


@pytest.mark.parametrize(
    "command", ["torchrun --master_port=65535 t.py", "python t.py --support 70000 --import=99999"]
)
def test_other_numbers_are_no_ports(command: str) -> None:
    assert list(launch_problems(experiment(run={"cmd": command}))) == []


@pytest.mark.parametrize("name", ["hosts_$SLURM_JOB_ID", "${SLURM_SUBMIT_DIR}/hosts", "$HOME/h"])
def test_hostfile_with_a_number_or_folder_is_not_the_jobs(name: str, wording: Wording) -> None:
    line = f"deepspeed --hostfile {name} t.py"
    wording(list(map(str, launch_problems(experiment(run={"cmd": line})))))
    written = experiment(run={"cmd": f"make_hosts > {name}\n{line}"})
    assert list(launch_problems(written)) == []
