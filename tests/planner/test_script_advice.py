"""Scripts that import Lightning or Accelerate where nobody tells their processes their place, or launch."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.planner.node_launches import script_advice, scripts_of
from tests.experiments import environment, resources
from tests.plans import planned
from tests.wording import Wording

LIGHTNING = "import lightning as L\n"
ACCELERATE = '"""Trains."""\n\nfrom accelerate import Accelerator\n'


CONNECTED = 'torchrun --nnodes=8 --node_rank="$HPCDIST_RANK" --rdzv_endpoint="$HPCDIST_HEAD_ADDRESS:1" t.py'


MEETS = "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$R --master_addr=$A t.py"


def said(text: str, workers: int = 1, **data: Any) -> list[str]:
    plan = planned(**data, environment=environment(workers, each=resources(cpu=4, gpu=4)))
    return list(script_advice(plan, "t.py", text))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python train.py --lr 0.1", "train.py"),
        ("cd x && A=1 python3.11 -u src/train.py", "x/src/train.py"),
        ("pip list\npython train.py", "train.py"),
        ("python -m train x.py", "train.py"),
        ("python3 -um pkg.train", ""),
        ("python /opt/train.py", ""),
        ("python $SCRIPT.py", ""),
        ("python -c 'x.py'", ""),
        ("./train.py", "train.py"),
        ("bash run.sh 3", "run.sh"),
        ("cd $SLURM_SUBMIT_DIR/x; cd ../y; sh -e scripts/run.sh", "y/scripts/run.sh"),
        ("cd $HOME && python train.py", ""),
        ("./run.sh", "run.sh"),
        ("bash -c 'run'", ""),
        ("train", ""),
    ],
)
def test_the_script_of_a_command(command: str, script: str) -> None:
    assert list(scripts_of(command)) == [script] * bool(script)


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("source t.sh", ["t.sh"]),
        (". ./t.sh && python train.py", ["t.sh", "train.py"]),
        ("python -c 'import sys'; exec bash run.sh", ["run.sh"]),
        (". /etc/profile; source ~/env.sh", []),
    ],
)
def test_all_scripts_of_a_command(command: str, scripts: list[str]) -> None:
    assert list(scripts_of(command)) == scripts


@pytest.mark.parametrize(
    "text",
    [
        LIGHTNING,
        "from lightning.fabric import Fabric",
        "import pytorch_lightning as pl",
        "try:\n    import lightning_fabric\nexcept ImportError: pass",
        ACCELERATE,
    ],
)
def test_library_without_rank_variables_warns(text: str, wording: Wording) -> None:
    wording(said(text, framework="mpi"))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (LIGHTNING, {"framework": "lightning"}),
        (ACCELERATE, {"framework": "accelerate"}),
        (ACCELERATE, {"framework": "pytorch", "pytorch": {"launch": "env"}}),
        (ACCELERATE, {"framework": "deepspeed"}),
        (LIGHTNING, {"framework": "pytorch", "run": {"cmd": "torchrun t.py"}}),
        (LIGHTNING, {"framework": "mpi", "run": {"cmd": "mpirun python t.py"}}),
        ("# import lightning\nimport accelerated\nx = 'import accelerate'\n", {"framework": "mpi"}),
    ],
)
def test_no_warning_where_rank_variables_are_set(text: str, data: dict[str, Any]) -> None:
    assert said(text, **data) == []


def test_one_process_with_several_gpus(wording: Wording) -> None:
    wording(said(ACCELERATE, workers=0))
    wording(said(LIGHTNING, workers=0))  # under Slurm it takes srun's tasks for its processes


def test_a_shell_script_that_launches(wording: Wording) -> None:
    plan = planned(framework="mpi", environment=environment(1, each=resources(cpu=4, gpu=4)))
    wording(script_advice(plan, "run.sh", "set -e\nmpirun -np 8 python t.py\n"))
    for text in (CONNECTED, "python t.py", "# mpirun x", "torchrun $ARGS t.py"):
        assert list(script_advice(plan, "run.sh", text)) == []
    alone = planned(environment=environment(each=resources(cpu=4)))
    assert list(script_advice(alone, "run.sh", "mpirun -np 4 python t.py")) == []


ALONE = (
    "torchrun --nproc_per_node=4 t.py",
    "torchrun --standalone --nproc_per_node=4 t.py",
    "torchrun --nnodes=1 --node_rank=0 --master_addr=localhost t.py",
    "exec python -m torch.distributed.run --nproc_per_node 4 t.py",
    "python3 -m torch.distributed.launch t.py",
    "accelerate launch t.py",
    "python -m accelerate.commands.launch --multi_gpu t.py",
    "set -e\nif true; then torchrun t.py; fi",
    "composer -n 4 t.py",
    "N=1\nARGS=(\n  --nnodes $N # all\n  --node_rank=$R --master_addr $A\n)\ntorchrun ${ARGS[@]} t.py",
    'ARGS=(--standalone "--nproc_per_node" 4)\ntorchrun "${ARGS[@]}" t.py',
)


@pytest.mark.parametrize("data", [{"framework": "mpi"}, {"framework": "horovod"}, {"framework": "pytorch"}])
@pytest.mark.parametrize("text", ALONE)
def test_a_shell_script_in_which_each_task_trains_alone(text: str, data: dict[str, Any]) -> None:
    plan = planned(
        **data, run={"cmd": "bash run.sh"}, environment=environment(1, each=resources(cpu=4, gpu=4))
    )
    assert len(list(script_advice(plan, "run.sh", text))) == 1


def test_what_a_script_that_trains_alone_should_say(wording: Wording) -> None:
    plan = planned(framework="mpi", environment=environment(1, each=resources(cpu=4, gpu=4)))
    wording([*script_advice(plan, "run.sh", ALONE[0]), *script_advice(plan, "run.sh", ALONE[5])])


def test_a_shell_script_with_a_launch_under_torchrun(wording: Wording) -> None:
    data: dict[str, Any] = {
        "framework": "pytorch",
        "pytorch": {"launch": "torchrun"},
        "run": {"cmd": "bash run.sh"},
    }
    plan = planned(**data, environment=environment(1, each=resources(cpu=4, gpu=4)))
    wording([*script_advice(plan, "run.sh", CONNECTED), *script_advice(plan, "run.sh", "mpirun python t.py")])


TRAINS = (
    "from transformers import (\n    AutoModel,\n    Trainer,\n)\n",
    "from transformers import Seq2SeqTrainingArguments\n",
    "import transformers as hf\n\nhf.Seq2SeqTrainer(x)\n",
    "from transformers import *\n\nTrainer(x)\n",
    "import transformers\ntransformers.Trainer(model)\n",
    "from trl import SFTTrainer\n",
    "from sentence_transformers import SentenceTransformerTrainer\n",
    "from sentence_transformers import SentenceTransformer\nmodel.fit(x)\n",
    "from composer import Trainer\n",
)


@pytest.mark.parametrize("framework", ["mpi", "horovod"])
@pytest.mark.parametrize("text", TRAINS)
def test_a_trainer_without_rank_variables_warns(text: str, framework: str) -> None:
    assert len(said(text, framework=framework)) == 1
    assert said(text, framework="pytorch", pytorch={"launch": "env"}) == []


def test_what_to_write_for_a_trainer(wording: Wording) -> None:
    wording([*said(TRAINS[0], framework="mpi"), *said(TRAINS[-1], framework="horovod")])


@pytest.mark.parametrize(
    "text",
    [
        "from transformers import AutoModel\n\nclass Trainer: pass\n",
        "from transformers import TFAutoModel\nmodel.fit(x)\n",
        "import transformers as hf\n\nclass Trainer: pass\n",
        "from sentence_transformers import SentenceTransformer\nmodel.encode(x)\n",
        "import trlx\nfrom .composer import Trainer\n",
    ],
)
def test_no_warning_of_a_library_that_does_not_train(text: str) -> None:
    assert said(text, framework="horovod") == []


@pytest.mark.parametrize(
    "text",
    [
        f"export CUDA_VISIBLE_DEVICES=0,1\n{MEETS}",
        f"MASTER_PORT=70000\n{MEETS}",
        MEETS.replace("node=4", "node=2"),
    ],
)
def test_a_script_that_connects_and_leaves_gpus_idle_or_names_no_port(text: str, wording: Wording) -> None:
    plan = planned(
        framework="pytorch",
        run={"cmd": "bash run.sh"},
        environment=environment(1, each=resources(cpu=4, gpu=4)),
    )
    wording(script_advice(plan, "run.sh", text))
