"""Hosts in users' own launch lines, in the forms that public files and manuals have."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import source
from hpcdist.errors import ConfigError, Place, Problem
from hpcdist.experiment.launch.problems import problems_of
from hpcdist.loading import load
from tests.experiments import experiment
from tests.wording import Wording

H = '"$HPCDIST_HOSTFILE"'
KNOWN_LATER = "its nodes are known only when it starts"


def found(command: str | list[str], **data: Any) -> list[Problem]:
    return list(problems_of(experiment(run={"cmd": command}, **data)))


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
        "mpirun -hostfile /tmp/hosts.$SLURM_JOB_ID x",
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
