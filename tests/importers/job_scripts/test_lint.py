"""What is wrong with a job script: each rule has a script that breaks it, and one in which it is silent.

The messages are in `tests/importers/wording.txt`.
"""

from __future__ import annotations

import re
import textwrap

import pytest

from hpcdist.base.tree import Document
from hpcdist.importers.job_scripts import document_of, lint
from hpcdist.importers.job_scripts.rules import RULES
from tests.wording import Wording


def document(text: str) -> Document:
    """Return a script; its first line is added."""
    found = document_of(f"#!/bin/bash\n{textwrap.dedent(text).lstrip()}", "job.sh")
    assert found is not None
    return found


def found_in(text: str) -> list[str]:
    """Return what is found in a script."""
    found = lint.problems(document(text), lambda folder: folder == "missing")
    return [f"{one.severity}: {one}" for one in found]


def changes(text: str) -> list[str]:
    """Return the lines that only the script has (``-``), and those that only its mended copy has (``+``)."""
    before = document(text).text.splitlines()
    after = lint.mended(document(text))[0].splitlines()
    gone = [f"- {line}" for line in before if before.count(line) > after.count(line)]
    return [*gone, *(f"+ {line}" for line in after if after.count(line) > before.count(line))]


BROKEN = {
    "indented-directive": (
        """
        #SBATCH -N 1
          #SBATCH -p gpu
        ./a
        """,
        ["-   #SBATCH -p gpu", "+ #SBATCH -p gpu"],
    ),
    "late-directive": (
        """
        #SBATCH -N 1
        set -x
        if true; then
          #SBATCH -q x
          ./a
        fi
        #SBATCH -p gpu
        """,
        [],
    ),
    "directive-variable": (
        """
        #SBATCH -o $USER-${SLURM_JOB_ID}.txt
        #SBATCH --chdir=~/x
        ./a
        """,
        ["- #SBATCH -o $USER-${SLURM_JOB_ID}.txt", "+ #SBATCH -o %u-%j.txt"],
    ),
    "output-folder": (
        """
        #SBATCH -o logs/%j/out -e missing/%x.txt
        ./a
        """,
        [],
    ),
    "shared-output": (
        """
        #SBATCH --array=1-9
        #SBATCH --output=a.log
        ./a
        """,
        ["- #SBATCH --output=a.log", "+ #SBATCH --output=a_%a.log"],
    ),
    "no-gpus": (
        """
        #SBATCH --cpus-per-task=4
        torchrun --standalone --nproc_per_node=gpu train.py
        """,
        [],
    ),
    "one-cpu": (
        """
        #SBATCH --gres=gpu:4
        #SBATCH -c 1
        python a.py
        """,
        [],
    ),
    "srun-cpus": (
        """
        #SBATCH -n 4 -c 8
        srun hostname
        for n in 1 2; do
          srun ./a $n
        done
        srun -c 8 ./b
        """,
        ["-   srun ./a $n", '+   srun --cpus-per-task="$SLURM_CPUS_PER_TASK" ./a $n'],
    ),
    "task-variable": (
        """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        export RANK=$SLURM_PROCID
        srun python a.py --node ${SLURM_NODEID}
        """,
        [],
    ),
    "mpirun-in-srun": (
        """
        #SBATCH -N 2 -n 8
        srun mpirun -np 8 ./a
        """,
        [],
    ),
    "launcher-per-task": (
        """
        #SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4
        srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$H:1 a.py
        """,
        [],
    ),
    "first-node-only": (
        """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$H:1 a.py
        """,
        [],
    ),
    "all-addresses": (
        """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        export MASTER_ADDR=$(hostname -I)
        srun python a.py
        """,
        [
            "- export MASTER_ADDR=$(hostname -I)",
            '+ export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        ],
    ),
    "own-address": (
        """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        srun bash -c 'MASTER_ADDR=$(hostname) python a.py'
        srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=localhost:1 a.py
        """,
        [],
    ),
    "fixed-port": (
        """
        #SBATCH --gres=gpu:2
        torchrun --nproc_per_node=2 a.py
        """,
        [],
    ),
    "no-port": (
        """
        #SBATCH -N 1
        P=295000
        torchrun --nnodes=1 --rdzv_endpoint=$HOST:$P a.py
        """,
        [],
    ),
    "conda-hook": (
        """
        #SBATCH -n 1
        if true; then
          conda activate torch
        fi
        python a.py
        """,
        ['+   eval "$(conda shell.bash hook)"'],
    ),
    "lost-exit-code": (
        """
        #SBATCH -n 1
        set -eu
        python a.py | tee log
        ls | head
        """,
        [],
    ),
    "trap-without-signal": (
        """
        #SBATCH -n 1
        trap 'scontrol requeue $SLURM_JOB_ID' SIGUSR1
        srun ./a &
        wait
        """,
        [],
    ),
    "signal-to-tasks": (
        """
        #SBATCH -n 1
        #SBATCH --signal=USR1@90
        trap save USR1
        srun ./a &
        wait
        """,
        [],
    ),
    "trap-too-late": (
        """
        #SBATCH -n 1
        #SBATCH --signal=B:USR1@90
        trap save USR1
        srun ./a
        """,
        [],
    ),
    "no-wait": (
        """
        #SBATCH -n 2
        srun -n 1 ./a &
        srun -n 1 ./b &
        echo started
        """,
        ["+ wait"],
    ),
    "no-signal": (
        """
        #SBATCH --time=1:00:00
        srun python train.py
        """,
        [],
    ),
}
"""A script, and the lines that differ in its mended copy."""

SILENT = {
    "indented-directive": """
        #SBATCH -N 1
        cat <<END
          #SBATCH -p gpu
        END
        """,
    "late-directive": """
        #SBATCH -N 1
        # comment

        #SBATCH -p x
        cat > b.sh <<END
        #SBATCH -p gpu
        END
        ##SBATCH -q y
        """,
    "directive-variable": """
        #SBATCH -o %u/a.txt --comment='$x'
        ##SBATCH -e $USER
        ./a
        """,
    "output-folder": """
        #SBATCH -o here/%j.txt -e %x_%j
        ./a
        """,
    "shared-output": """
        #SBATCH --array=1-9 -o %x-%j.log -e /dev/null
        ./a
        """,
    "no-gpus": """
        #SBATCH --mem=4G
        srun --gpus=4 torchrun --standalone --nproc_per_node=gpu a.py
        """,
    "one-cpu": """
        #SBATCH --gres=gpu:4 --exclusive
        #SBATCH -c 1
        python a.py
        """,
    "srun-cpus": """
        #SBATCH -n 4 -c 8
        srun -n$((2 * 2)) -c8 ./a
        srun -c "$SLURM_CPUS_PER_TASK" ./a
        srun --cpu-bind=none ./a
        """,
    "task-variable": """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        R='$SLURM_PROCID'
        srun bash -c 'RANK=$SLURM_PROCID python a.py'
        srun bash -c "python a.py --rank \\$SLURM_PROCID"
        """,
    "mpirun-in-srun": """
        #SBATCH -N 1 -n 1
        srun mpirun -np 8 ./a
        """,
    "launcher-per-task": """
        #SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4
        srun -N 2 -n 2 torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$H:1 a.py
        """,
    "first-node-only": """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        for n in $NODES; do
          ssh $n torchrun --nnodes=2 a.py &
        done
        wait
        """,
    "all-addresses": """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        ips=($(hostname -I))
        A=$(hostname -I | cut -d' ' -f1)
        srun python a.py $A
        """,
    "own-address": """
        #SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4
        export MASTER_ADDR=$(hostname)
        srun python a.py
        srun -N 1 -n 1 torchrun --nproc_per_node=4 --rdzv_endpoint=localhost:0 a.py
        """,
    "fixed-port": """
        #SBATCH --gres=gpu:2
        torchrun --nproc_per_node=2 --master_port=$PORT a.py
        """,
    "no-port": """
        #SBATCH -N 1
        torchrun --master_port=$((20000 + RANDOM)) a.py
        torchrun --master_port=65535 a.py
        """,
    "conda-hook": """
        #SBATCH -n 1
        module load miniforge
        conda activate torch
        python a.py
        """,
    "lost-exit-code": """
        #SBATCH -n 1
        set -eo pipefail
        python a.py | tee log
        """,
    "trap-without-signal": """
        #SBATCH -n 1
        trap 'rm -r $TMP' EXIT TERM
        ./a
        """,
    "signal-to-tasks": """
        #SBATCH -n 1
        #SBATCH --signal=USR1@90
        srun ./a
        """,
    "trap-too-late": """
        #SBATCH -n 1
        #SBATCH --signal=B:USR1@90
        trap save USR1
        srun ./a &
        wait
        """,
    "no-wait": """
        #SBATCH -n 2
        srun -n 1 ./server &
        srun -n 1 ./b
        """,
    "no-signal": """
        #SBATCH --time=1:00:00
        srun python train.py --resume auto
        """,
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_script_that_breaks_a_rule_warns(rule: str, wording: Wording) -> None:
    text, mended = BROKEN[rule]
    wording(found_in(text))
    assert {one.path for one in lint.problems(document(text), lambda folder: folder == "missing")} == {
        (rule,)
    }
    assert changes(text) == mended


@pytest.mark.parametrize("rule", SILENT)
def test_a_script_that_keeps_a_rule_is_clean(rule: str) -> None:
    assert found_in(SILENT[rule]) == []
    assert lint.mended(document(SILENT[rule])) == (document(SILENT[rule]).text, 0)


def test_each_rule_has_both_scripts_and_a_source() -> None:
    assert [*BROKEN] == [*SILENT] == [*RULES]
    assert [rule.name for rule in RULES.values() if not (rule.source and rule.hint)] == []


def test_late_directives_move_below_the_others() -> None:
    text = "#SBATCH -N 1\n\nset -x\n#SBATCH -p gpu\n#SBATCH -n 2\n./a\n"
    mended = "#!/bin/bash\n#SBATCH -N 1\n#SBATCH -p gpu\n#SBATCH -n 2\n\nset -x\n./a\n"
    assert lint.mended(document(text)) == (mended, 2)


def test_a_mended_script_is_clean_where_all_mends_are_certain() -> None:
    whole = (
        "#SBATCH -n 2 -c 8 -o $USER.log\nA=$(hostname -I)\nconda activate x\nsrun ./a &\n#SBATCH --mem=9G\n"
    )
    mended, count = lint.mended(document(whole))
    again = document_of(mended, "job.sh")
    assert again is not None
    assert count == 5
    assert lint.mended(again) == (mended, 0)


@pytest.mark.parametrize("directive", ["#PBS -l walltime=1:00:00", "#BSUB -n 2", "#flux: -n 2", "#$ -cwd"])
def test_scripts_of_other_systems_have_the_rules_of_the_shell(directive: str) -> None:
    text = f"{directive}\nset -e\nconda activate torch\nmpirun ./a | tee log\nsrun ./b &\n"
    rules = [re.findall(r"\d+:\d+: ([\w-]+):", one)[0] for one in found_in(text)]
    assert rules == ["conda-hook", "lost-exit-code", "no-wait"]


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH -n 1\n",
        "#SBATCH -o 'x\n./a\n",
        "#SBATCH -n 1\nif [ $x ; then (\n",
        "#SBATCH -n 1\ncase $1 in\n  a) srun ./a ;;\n  *) (cd x && ./b) ;;\nesac\nf() { srun ./c; }\n",
    ],
)
def test_odd_scripts_are_read(text: str) -> None:
    assert found_in(text) == []
