#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# rule run directory
#PBS -o /scratch/me/runs/packed-1/logs/node-^array_index^.out
# packed.yml name
#PBS -N packed
# packed.yml batch.account
#PBS -A proj
# site polaris-like: partitions.prod
#PBS -q prod
# site polaris-like: partitions.prod
#PBS -l select=1:mpiprocs=4:system=polaris
# site polaris-like: whole_nodes
#PBS -l place=scatter
# packed.yml batch.walltime
#PBS -l walltime=02:00:00
# packed.yml hptuning
#PBS -J 1-4
# default
#PBS -r y
# site polaris-like: pbs.keep
#PBS -k doe
# site polaris-like: environment
#PBS -V
# site polaris-like: directives.mandatory
#PBS -l filesystems=home:eagle
# Made by hpcdist 0.1.0 for site polaris-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='packed: 200 trials, 16 at once by pals, 4 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/packed-1
  [scheduler]=pbs [submit_environment]=inherit [walltime]=02:00:00 [array]=1-4 [trials]=trials.tsv [packed]=16
  [launcher]=pals [program]=mpiexec [mode]=tasks [rank]=PMI_RANK [size]=PMI_SIZE
  [nodes]=1 [tasks]=4 [tasks_per_node]=4 [hostfile]=%s%.0s [threads]=own
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=64
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     1           4        0    0          0   16   0   1    1       1"
)

# The command.
program() {
  trial_program
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{"seed": 0}'  # polyaxon
  export POLYAXON_DECLARATIONS='{"seed": 0}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.packed", "experiment_uuid": "packed", "framework": "pytorch", "user": null}'  # polyaxon
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"  # framework pytorch
  export MASTER_PORT="$HPCDIST_PORT"  # framework pytorch
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export WORLD_SIZE="$HPCDIST_SIZE"  # framework pytorch
  export RANK="$HPCDIST_RANK"  # framework pytorch
  export LOCAL_RANK="0"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What a task, a worker, runs for each trial.
trial() {
  exec \
    bash "$HPCDIST_JOB_DIR/command.sh"
}

# What starts them.
launch() {
  # mpiexec -n 4 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16: launcher pals
  # --cpu-bind depth: site polaris-like: launchers.pals.binding
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": packed.yml run.cmd
  exec mpiexec -n 4 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth \
    "${hpcdist_task[@]}"
}
