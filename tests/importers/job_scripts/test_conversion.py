# ruff: noqa: E501, ISC004 - a message is compared as one line
"""Bodies of job scripts: the one launch line becomes hpcdist's own, anything else stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.importers.job_scripts.reading import command_of, read
from tests.importers.job_scripts.scripts import SHAPES

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4\n"
FOUR = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4\n"


def test_a_script_with_everything_before_its_launch_line() -> None:
    found = read(SHAPES["srun_python"].text)
    each = {"cpu": {"requests": 32}, "memory": {"requests": 122880}, "gpu": {"requests": 4}}
    assert found.data == {
        "name": "ddp",
        "framework": "pytorch",
        "pytorch": {"launch": "env"},
        "environment": {
            "resources": each,
            "replicas": {"n_workers": 1, "default_worker": {"resources": each}},
            "env_vars": {"NCCL_DEBUG": "INFO"},
        },
        "batch": {"walltime": "02:00:00", "nodes": 2, "modules": ["purge", "cuda/12.1", "nccl"]},
        "run": {
            "cmd": "source venv/bin/activate   # torch is in it\n"
            "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n"
            'python train.py --name "a b" --lr 0.1 --each=$SLURM_NTASKS'
        },
    }
    assert found.remarks == [
        '15:1: `export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)` is dropped: hpcdist sets MASTER_ADDR',
        "16:1: `export MASTER_PORT=$((10000 + RANDOM % 5000))` is dropped: hpcdist sets MASTER_PORT",
        '17:1: `echo "the first node is $MASTER_ADDR"` is dropped: it prints what hpcdist sets',
    ]


COMMANDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "torchrun": (
        f"{HEAD}srun torchrun --nnodes=2 --nproc-per-node=4 --max_restarts=3 --tee 3 train.py --lr 1",
        {"framework": "pytorch", "pytorch": {"launch": "torchrun", "max_restarts": 3, "args": ["--tee=3"]}},
        "python -u train.py --lr 1",
    ),
    "module of torch": (
        f"{HEAD}srun python -u -m torch.distributed.run --nnodes 2 --nproc_per_node gpu -m pkg.train",
        {"framework": "pytorch", "pytorch": {"launch": "torchrun"}},
        "python -u -m pkg.train",
    ),
    "the array of Megatron": (
        f"{HEAD}ARGS=(--nproc_per_node 4 --nnodes $SLURM_NNODES --master_addr $(hostname))\nMODEL=(\n  --layers 2\n)\n"
        'srun torchrun ${ARGS[@]} pretrain.py "${MODEL[@]}"',
        {"framework": "pytorch", "pytorch": {"launch": "torchrun"}},
        'MODEL=(\n  --layers 2\n)\nhpcdist_start_processes\npython -u pretrain.py "${MODEL[@]}"',
    ),
    "torchrun in a container": (
        f"{HEAD}srun apptainer exec --nv torch.sif torchrun --nnodes 2 --rdzv_endpoint $(hostname):29500 train.py",
        {"framework": "pytorch"},
        "apptainer exec --nv torch.sif torchrun --nnodes 2 --rdzv_endpoint $HPCDIST_HEAD_ADDRESS:29500 train.py",
    ),
    "a container of srun": (
        f"{FOUR}srun --mpi=pmix --container-image=nvcr.io#nvidia/pytorch:24.01-py3 --container-mounts=/data,$HOME:/h python t.py",
        {
            "framework": "mpi",
            "build": {"image": "nvcr.io/nvidia/pytorch:24.01-py3", "binds": ["/data", "$HOME:/h"]},
        },
        "python t.py",
    ),
    "lines in bash -c": (
        f"{FOUR}srun bash -c 'cd work && source env.sh && python t.py'",
        {"framework": "pytorch", "pytorch": {"launch": "env"}},
        "cd work && source env.sh && python t.py",
    ),
    "accelerate": (
        f"{HEAD}head=$(scontrol show hostnames | head -n1)\nsrun bash -c 'accelerate launch --num_machines 2 --machine_rank $SLURM_PROCID --main_process_ip '$head' t.py'",
        {"framework": "pytorch"},
        'head="$HPCDIST_HEAD_ADDRESS"\naccelerate launch --num_machines 2 --machine_rank $SLURM_PROCID --main_process_ip $head t.py',
    ),
    "quotes inside of quotes": (
        f'{FOUR}D="$(cd "$(dirname "$X")" && pwd)"\nsrun python t.py "$D" "1) a"',
        {"framework": "pytorch"},
        'D="$(cd "$(dirname "$X")" && pwd)"\npython t.py "$D" "1) a"',
    ),
    "braces": (
        f"{FOUR}srun -n 8 python t.py --files {{1..3}}.tar a{{b,c}} --x ${{y}} $((2 * 3)) $(a $(b $(c d)))",
        {"framework": "pytorch"},
        "python t.py --files {1..3}.tar a{b,c} --x ${y} $((2 * 3)) $(a $(b $(c d)))",
    ),
    "variables of srun": (
        f"{FOUR}B=`pwd`\nsrun --export=ALL,A=1,C=$B python t.py",
        {"framework": "pytorch", "environment": {"env_vars": {"A": "1"}}},
        "B=`pwd`\nexport C=$B\npython t.py",
    ),
    "variables of mpirun": (
        f"{FOUR}B=$HOME/b\nD=5\nmpirun -x A=1 -x C=$B -x E=$D ./solver",
        {"framework": "mpi", "environment": {"env_vars": {"A": "1", "E": "5"}}},
        "B=$HOME/b\nC=$B ./solver",
    ),
    "binding": (
        f"{FOUR}module load openmpi\nsrun -n 8 --cpu-bind=cores ./solver",
        {
            "framework": "mpi",
            "batch": {"nodes": 2, "launcher": {"name": "srun", "args": ["--cpu-bind=cores"]}, "modules": ["openmpi"]},
        },
        "./solver",
    ),
    "modules in a folder of one's own": (
        f"{HEAD}module load gcc\nmodule use /my/modules\nmodule load torch\nexport A='$x'\nsrun python t.py",
        {"framework": "pytorch", "batch": {"nodes": 2, "modules": ["gcc"]}},
        "module use /my/modules\nmodule load torch\nexport A='$x'\npython t.py",
    ),
    "a module behind a file that may set anything": (
        f"{HEAD}export A=1\nsource env.sh\nmodule load gcc\nexport B=2\nsrun python t.py",
        {"environment": {"env_vars": {"A": "1"}}, "batch": {"nodes": 2}},
        "source env.sh\nmodule load gcc\nexport B=2\npython t.py",
    ),
    "variables behind an environment of Python": (
        f"{HEAD}source activate torch\nexport NCCL_DEBUG=INFO\nexport CUDA_HOME=/cuda\nsrun python t.py",
        {"environment": {"env_vars": {"NCCL_DEBUG": "INFO"}}},
        "source activate torch\nexport CUDA_HOME=/cuda\npython t.py",
    ),
    "a module behind a PATH": (
        f"{HEAD}export PATH=/a:/b\nmodule load gcc\nsrun python t.py",
        {"environment": {"env_vars": {"PATH": "/a:/b"}}, "batch": {"nodes": 2}},
        "module load gcc\npython t.py",
    ),
    "a step that reads the folder": (
        f"{HEAD}cd src\ndate\nls > files\nsrun python t.py",
        {"run": {"cmd": "cd src\npython t.py", "prepare": {"cmd": "cd src\ndate\nls > files\n:"}}},
        "cd src\npython t.py",
    ),
    "quotes in one of two texts": (
        f"{HEAD}A=\"--x 'a b'\"\n[ -f f ] && A=\"--y 'c d'\"\nsrun bash -c \"torchrun --nnodes 2 t.py $A\"",
        {"framework": "pytorch"},
        "A=\"--x 'a b'\"\n[ -f f ] && A=\"--y 'c d'\"\nbash -c \"torchrun --nnodes 2 t.py $A\"",
    ),
    "steps": (
        f"{HEAD}mkdir -p logs\nnvidia-smi\nsrun python t.py\necho ended with $?\ncp a b",
        {
            "framework": "pytorch",
            "run": {
                "cmd": "python t.py",
                "prepare": {"cmd": "mkdir -p logs\nnvidia-smi\n:"},
                "finish": {"cmd": "echo ended with $HPCDIST_EXIT_CODE\ncp a b"},
            },
        },
        "python t.py",
    ),
    "steps that must not fail": (
        f"{HEAD}set -eu\nA=1; B=$A; mkdir $B\nsrun python t.py $B",
        {"run": {"cmd": "set -eu\nA=1\nB=$A\npython t.py $B", "prepare": {"cmd": "set -eu\nA=1\nB=$A\nmkdir $B"}}},
        "set -eu\nA=1\nB=$A\npython t.py $B",
    ),
    "one task": (
        "#!/bin/bash\n#SBATCH --gpus=1\nmodule load cuda\nsource env.sh\nfor x in 1 2; do\n  python t.py $x {{ y }}\ndone",
        {"batch": {"modules": ["cuda"]}},
        "{% raw %}source env.sh\nfor x in 1 2; do\n  python t.py $x {{ y }}\ndone{% endraw %}",
    ),
    "a login shell": (
        f"#!/bin/bash -l{HEAD.removeprefix('#!/bin/bash')}module load gcc\nconda activate torch\nsrun python t.py",
        {"framework": "pytorch"},
        "[[ -r /etc/profile ]] && source /etc/profile\n"
        "[[ -r ~/.bash_profile ]] && source ~/.bash_profile || source ~/.profile\n"
        "module load gcc\nconda activate torch\npython t.py",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_launch_lines(name: str) -> None:
    text, keys, command = COMMANDS[name]
    data = read(text).data
    found = {key: data[key] for key in keys}
    if "environment" in keys:
        found["environment"] = {key: data["environment"][key] for key in keys["environment"]}
    assert (found, data["run"]["cmd"], "backend" in data) == (keys, command, False)


def test_a_count_of_gpus_that_only_a_directive_sets() -> None:
    each = read(f"{HEAD}srun python t.py --gpus $SLURM_GPUS_PER_NODE").data
    body = read(f"{HEAD}srun python a.py $SLURM_GPUS_PER_NODE\nsrun python b.py").data
    assert each["run"]["cmd"] == "SLURM_GPUS_PER_NODE=4\npython t.py --gpus $SLURM_GPUS_PER_NODE"
    assert body["environment"]["env_vars"] == {"SLURM_GPUS_PER_NODE": "4"}


REASONS = {
    "source ~/venv/bin/activate\nhorovodrun -np 8 --gloo python a.py": (
        "whose horovodrun is in an environment which the script activates"
    ),
    "export RUN=$(python3 name.py)\nsrun python a.py $RUN": "for which the job script expands $(python3 once, for all tasks",
    "srun python a.py\nsrun python b.py": "with 2 launch lines",
    "f() {\n  date\n}\nf\nsrun python a.py": "in a script with functions",
    "trap 'touch x' USR1\nsrun python a.py": "in a script with trap",
    "for i in 1 2; do\n  srun python a.py $i\ndone": "inside of a loop",
    "if true; then\n  srun python a.py\nfi": "inside of `if`",
    "srun -N 1 python a.py": "that uses 1 of the 2 nodes",
    "srun python a.py | grep loss": "whose output another program reads",
    "srun python a.py > log.txt\ncp log.txt /x": "whose output later lines read",
    "srun python a.py --seed $RANDOM": "in which the job script expands RANDOM, once for all tasks",
    "NAME=run-$(date +%s)\nsrun python a.py $NAME": "for which the job script expands date once, for all tasks",
    "srun python a.py --rank $SLURM_PROCID": "in which the job script expands SLURM_PROCID, once for all tasks",
    "srun torchrun --standalone a.py": "in which torchrun trains on one node",
    "srun -n 8 torchrun --nnodes 2 a.py": "in which srun starts 4 launchers on each node",
    "torchrun --nnodes 2 a.py": "in which torchrun starts on the first node only",
    'A=" --x `bc <<< "3; 4"` "\nsrun python a.py $A': "in a script whose quotes are not clear",
    'A="$(echo "x y")"\nsrun python a.py $A': "in a script whose quotes are not clear",
    "mpirun -np 3 ./solver": "that starts 3 processes on 2 nodes, not the same number on each",
    "deepspeed a.py": "in which deepspeed finds no other node: there is no --hostfile",
    "python driver.py": "in which no known launcher starts processes on the nodes",
    "srun python a.py &\npython b.py": "in the background, for whose end the script does not just wait",
    "srun python a.py &\npython b.py &\nwait": "in the background, for whose end the script does not just wait",
    "srun --multi-prog conf": "that starts several programs",
    "if x; then\n  python a.py\nfi\nsrun python b.py": "after a `if` with python",
}


@pytest.mark.parametrize("body", REASONS)
def test_a_body_that_stays_as_it_is(body: str) -> None:
    found = read(HEAD + body)
    why = f"3:1: this command, {REASONS[body]}, runs once, on the first node; its hosts are in `$HPCDIST_HOSTFILE`"
    assert (found.data["run"]["cmd"], found.data["backend"], found.remarks) == (body, "mpi", [why])


def test_a_body_stays_as_it_is_if_the_user_says_so() -> None:
    found = read(f"{HEAD}srun torchrun --nnodes 2 t.py", "job_body")
    why = "this command, as `--from job_body` says, runs once, on the first node"
    assert found.data["run"] == {"cmd": "srun torchrun --nnodes 2 t.py"}
    assert found.remarks == [f"3:1: {why}; its hosts are in `$HPCDIST_HOSTFILE`"]


def test_each_shape_is_what_it_looks_like() -> None:
    kinds = {name: read(shape.text).data for name, shape in SHAPES.items()}
    assert {name: (data.get("framework"), data.get("backend")) for name, data in kinds.items()} == {
        "srun_python": ("pytorch", None),
        "srun_torchrun": ("pytorch", None),
        "settings_in_their_order": ("pytorch", None),
        "arrays": ("pytorch", None),
        "loop_of_nodes": ("pytorch", None),
        "loop_by_ssh": ("pytorch", None),
        "in_a_variable": ("pytorch", None),
        "bash_c": ("pytorch", None),
        "accelerate": ("pytorch", None),
        "mpirun": ("mpi", None),
        "horovodrun": ("horovod", None),
        "deepspeed": ("deepspeed", None),
        "array_of_one_gpu": (None, None),
        "several_on_one_node": (None, None),
        "several_launch_lines": ("mpi", "mpi"),
        "its_own_nodes": ("mpi", "mpi"),
        "pbs_mpiexec": ("mpi", None),
        "torque_mpirun": ("mpi", None),
        "lsf_mpirun": ("mpi", None),
        "sge_mpirun": ("mpi", None),
        "flux_run": ("pytorch", None),
    }


def test_the_whole_body_of_several_launch_lines_is_kept() -> None:
    shape = SHAPES["several_launch_lines"]
    assert command_of(shape.text) == "".join(
        line for line in shape.text.splitlines(keepends=True) if not line.startswith("#")
    ).rstrip("\n")


def test_a_body_of_one_task_that_is_not_clear_stays_its_command() -> None:
    body = "go() {\n  torchrun --nproc_per_node 4 t.py\n}\ngo"
    found = read(f"#!/bin/bash\n#SBATCH --gpus-per-node=4\n{body}")
    assert found == (
        {"environment": {"resources": {"gpu": {"requests": 4}}}, "run": {"cmd": body}},
        [],
    )


def test_a_script_that_may_start_the_tasks_stays_a_body() -> None:
    found = read("#!/bin/bash\n#SBATCH --nodes=1 --ntasks=4\nsh run.sh")
    assert (found.data["run"]["cmd"], found.data["backend"]) == ("sh run.sh", "mpi")


def test_joined_lines_have_no_blank_between_them() -> None:
    line = 'srun bash -c "python t.py --a \\\n --b=\\\nc"'
    assert command_of(f"{HEAD}{line}") == "python t.py --a  --b=c"


def test_a_launcher_that_is_found_by_which() -> None:
    line = "srun python `which torchrun` --nnodes 2 --nproc_per_node 4 t.py"
    assert read(f"{HEAD}{line}").data["framework"] == "pytorch"


ONE = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=2 --cpus-per-task=4 --gpus-per-node=2\n"


@pytest.mark.parametrize(
    ("script", "command", "framework"),
    [
        (f"{HEAD}stdbuf -o0 srun python t.py", "python t.py", "pytorch"),
        (f"{HEAD}srun --resv-ports=4 python t.py", "python t.py", "pytorch"),
        (
            f'{HEAD}srun singularity exec i.sif bash -c "source e.sh; torchrun --nnodes 2 t.py"',
            'singularity exec i.sif bash -c "source e.sh; torchrun --nnodes 2 t.py"',
            "pytorch",
        ),
        (
            "#!/bin/bash\n#SBATCH --gpus=4\nsrun bash -c 'nsys profile deepspeed t.py'",
            "nsys profile deepspeed t.py",
            "pytorch",
        ),
        (
            f'{HEAD.replace("=2 ", "=1 ")}srun bash -c "python t.py $SLURM_PROCID"',
            "python t.py $SLURM_PROCID",
            None,
        ),
        (
            f"{HEAD}declare -x A=$USER\ndeclare -xr B=1\nC=2\nsrun python t.py",
            "declare -x A=$USER\ndeclare -xr B=1\npython t.py",
            "pytorch",
        ),
        (
            f"{ONE}python t.py $SLURM_CPUS_PER_TASK\necho $SLURM_NTASKS",
            "SLURM_NTASKS=2\nSLURM_CPUS_PER_TASK=4\npython t.py $SLURM_CPUS_PER_TASK\necho $SLURM_NTASKS",
            None,
        ),
    ],
)
def test_lines_that_unseen_scripts_had(script: str, command: str, framework: str | None) -> None:
    data = read(script).data
    assert (data["run"]["cmd"], data.get("framework"), data.get("backend")) == (command, framework, None)


def test_what_only_the_job_knows() -> None:
    mounts = "srun --container-image=a.sqsh --container-mounts=$DIR:/x,$HOME:/h python t.py"
    known = read(f"{HEAD}DIR=/data\n{mounts}").data
    body = read(f"{HEAD}DIR=`pwd`\n{mounts}").remarks
    assert known["build"] == {"image": "a.sqsh", "binds": ["/data:/x", "$HOME:/h"]}
    assert "whose --container-mounts=$DIR:/x,$HOME:/h is known only at run time" in body[0]


def test_arguments_of_the_script() -> None:
    found = read(f"{HEAD}awk '{{print $1}}' x\nsrun python t.py ${{1:-a}} $2").remarks
    assert found == ["4:1: $1 is empty: hpcdist passes no arguments to the script"]


def test_what_becomes_of_addresses_and_ports() -> None:
    lines = "export MASTER_ADDR=$(hostname) MASTER_PORT=29500\nHOST=$(hostname -i)\nPORT=6000\nexport WORLD_SIZE=8"
    found = read(
        f"{HEAD}{lines}\nsrun accelerate launch --num_machines 2 --main_process_ip $HOST --main_process_port $PORT t.py"
    )
    assert found.data["run"]["cmd"] == (
        'HOST="$HPCDIST_HEAD_ADDRESS"\nPORT=6000\nexport WORLD_SIZE=8\n'
        "accelerate launch --num_machines 2 --main_process_ip $HOST --main_process_port $PORT t.py"
    )
    assert found.remarks == [
        "3:1: `export MASTER_ADDR=$(hostname) MASTER_PORT=29500` is dropped: hpcdist sets MASTER_ADDR",
        "3:1: `export MASTER_ADDR=$(hostname) MASTER_PORT=29500` is dropped: hpcdist sets MASTER_PORT",
        '4:1: `HOST=$(hostname -i)` becomes `HOST="$HPCDIST_HEAD_ADDRESS"`',
    ]


@pytest.mark.parametrize("name", SHAPES)
def test_a_script_that_is_cut_off_is_read_or_refused(name: str) -> None:
    """Each beginning of a script, which may end inside of a quotation or a loop."""
    text = SHAPES[name].text
    for end in range(text.index("\n") + 1, len(text), 13):
        if "\n#SBATCH " in text[:end]:
            read(text[:end])


def test_a_heredoc_keeps_its_directives_and_comments() -> None:
    inner = "cat <<EOF > inner.sh\n#!/bin/bash\n#SBATCH -N 9\nsrun ./p\nEOF\nsbatch inner.sh"
    found = read(f"#!/bin/bash\n#SBATCH -N 1\n{inner}\n")
    assert (found.data["run"]["cmd"], found.remarks) == (inner, [])


def test_a_sourced_file_may_read_the_variables_before_it() -> None:
    found = read(f"{FOUR}BACKEND=pt\nsource env.sh\nsrun python t.py\n")
    assert (found.data["run"]["cmd"], found.remarks) == ("BACKEND=pt\nsource env.sh\npython t.py", [])


def test_one_program_has_the_cpus_of_all_tasks() -> None:
    found = read("#!/bin/bash\n#SBATCH -N 1 -n 15 --gres=gpu:2\npython t.py\n")
    assert found.data["environment"]["resources"] == {"cpu": {"requests": 15}, "gpu": {"requests": 2}}


def test_a_launcher_at_a_path_is_that_of_its_environment() -> None:
    line = "/opt/env/bin/torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$A:1 t.py"
    command = command_of(f"{HEAD}A=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\nsrun {line}\n")
    assert "/opt/env/bin/torchrun --nnodes=2 --nproc-per-node=4" in command


def test_srun_may_give_each_task_its_own_gpus() -> None:
    found = read(f"{FOUR}srun --gpus-per-task=1 python t.py\n")
    assert (found.data["batch"]["gpu_visibility"], found.remarks) == ("task", [])


def test_a_backslash_ends_a_directive() -> None:
    found = read("#!/bin/bash\n#SBATCH --nodelist=n1\\\npython t.py\n")
    assert found.data["batch"]["directives"] == ["--nodelist=n1"]
