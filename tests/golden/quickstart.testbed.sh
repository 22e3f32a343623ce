#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/quickstart-1/logs/job.out
# quickstart.yml name
#SBATCH --job-name=quickstart
# default
#SBATCH --no-requeue
# site testbed: environment
#SBATCH --export=ALL
# site testbed: partitions.gpu
#SBATCH --partition=gpu
# quickstart.yml batch.walltime
#SBATCH --time=00:10:00
# site testbed: partitions.gpu
#SBATCH --nodes=1
# site testbed: partitions.gpu
#SBATCH --ntasks-per-node=2
# site testbed: partitions.gpu
#SBATCH --cpus-per-task=1
# site testbed: partitions.gpu
#SBATCH --mem=1024M
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='quickstart: 2 tasks by srun, 1 node' [run_dir]=/scratch/me/runs/quickstart-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=srun [program]=srun [mode]=tasks [rank]=SLURM_PROCID [size]=SLURM_NTASKS [needs_pmi]=1 [mpi]=pmix
  [nodes]=1 [tasks]=2 [tasks_per_node]=2 [threads]=default
  [gpus]=hidden [gpu_variable]=CUDA_VISIBLE_DEVICES
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   1    0   0    1       1"
  " worker 0     1    1     1           1        0    1          1   1    0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/quickstart.py --lr=0.1 --epochs=20
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{"lr": 0.1, "epochs": 20}'  # polyaxon
  export POLYAXON_DECLARATIONS='{"lr": 0.1, "epochs": 20}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.quickstart", "experiment_uuid": "quickstart", "framework": "mpi", "user": null}'  # polyaxon
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=1 --kill-on-bad-exit=1 --wait=0 --label: launcher srun
  # --mpi=pmix: site testbed: launchers.srun.mpi
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": quickstart.yml run.cmd
  exec srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=1 --kill-on-bad-exit=1 --wait=0 --label --mpi=pmix \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
