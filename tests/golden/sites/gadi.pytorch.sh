#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# rule run directory
#PBS -o /scratch/me/runs/pytorch-1/logs/job.out
# pytorch.yml name
#PBS -N pytorch
# pytorch.yml batch.account
#PBS -P proj
# site gadi: partitions.gpuvolta
#PBS -q gpuvolta
# site gadi: partitions.gpuvolta
#PBS -l ncpus=96
# site gadi: gpus
#PBS -l ngpus=8
# site gadi: request_memory
#PBS -l mem=782336mb
# pytorch.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site gadi: environment
#PBS -V
# Made by hpcdist 0.1.0 for site gadi. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 2 tasks by mpirun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=pbs [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [starts_processes]=1 [remote_shell]=agent [checks_program]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [hostfile]='%s slots=%s' [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30 [shared_gpus]=1 [gpu_hook]='PBS'"'"'s cgroups hook'
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   48   0   4    1       4"
  " worker 0     1    1     1           1        1    0          0   48   0   4    1       4"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
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
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.pytorch", "experiment_uuid": "pytorch", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=12  # framework pytorch
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export PET_LOCAL_ADDR="$HPCDIST_ADDRESS"  # framework pytorch
  export TORCHELASTIC_ERROR_FILE="$HPCDIST_RUN_DIR/logs/torchrun-$HPCDIST_JOB_ID.$HPCDIST_NODE.json"  # framework pytorch
  export PET_NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE": launcher mpirun
  # --prefix "$(dirname "$(dirname "$(type -P mpirun)")")": rule mpirun over ssh
  # --map-by slot --bind-to none: launcher mpirun
  # "${hpcdist_exports[@]}": variables of the plan
  # "${hpcdist_task[@]}": task wrapper
  # torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec mpirun -np 2 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
