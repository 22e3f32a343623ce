#!/bin/bash
# rule run directory
#SBATCH --output=/scratch/me/runs/modules-1/logs/job.out
# modules.yml name
#SBATCH --job-name=modules
# default
#SBATCH --no-requeue
# site testbed: environment
#SBATCH --export=ALL
# site testbed: partitions.gpu
#SBATCH --partition=gpu
# site testbed: walltime
#SBATCH --time=00:10:00
# site testbed: partitions.gpu
#SBATCH --nodes=1
# site testbed: partitions.gpu
#SBATCH --ntasks-per-node=2
# site testbed: partitions.gpu
#SBATCH --cpus-per-task=2
# site testbed: partitions.gpu
#SBATCH --mem=1000M
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='modules: 2 tasks by mpirun, 1 node' [run_dir]=/scratch/me/runs/modules-1
  [scheduler]=slurm [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [remote_shell]=agent
  [nodes]=1 [tasks]=2 [tasks_per_node]=2 [hostfile]='%s slots=%s' [threads]=default
  [gpus]=hidden [gpu_variable]=CUDA_VISIBLE_DEVICES
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   2    0   0    1       1"
  " worker 0     1    1     1           1        0    1          2   2    0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
./train
COMMAND
}

# What is needed before anything starts.
setup() {
  load_module cuda/12.4 'modules.yml batch.modules.0'  # modules.yml batch.modules.0
  load_module nccl/2.22.3 'modules.yml batch.modules.1'  # modules.yml batch.modules.1
  activate_spack 'modules.yml batch.spack_env' --dir '/projects/it'"'"'s mine/torch'  # modules.yml batch.spack_env
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.modules", "experiment_uuid": "modules", "framework": "mpi", "user": null}'  # polyaxon
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" --map-by slot --bind-to none: launcher mpirun
  # "${hpcdist_exports[@]}": variables of the plan
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": modules.yml run.cmd
  exec mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
