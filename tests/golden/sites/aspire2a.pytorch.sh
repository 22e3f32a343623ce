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
# site aspire2a: partitions.normal
#PBS -q normal
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#PBS -l select=2:ncpus=64:mpiprocs=4:ngpus=4
# site aspire2a: pbs.place
#PBS -l place=scatter
# pytorch.yml batch.walltime
#PBS -l walltime=01:00:00
# default
#PBS -r n
# site aspire2a: pbs.keep
#PBS -k oed
# site aspire2a: environment
#PBS -V
# Made by hpcdist 0.1.0 for site aspire2a. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='pytorch: 8 tasks by mpirun, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=pbs [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [remote_shell]=agent
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [hostfile]='%s slots=%s' [threads]=own
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30 [shared_gpus]=1 [gpu_hook]='PBS'"'"'s cgroups hook'
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   16   0   1    1       1"
  " worker 0     4    4     4           4        1    0          0   16   0   1    1       1"
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
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"  # framework pytorch
  export MASTER_PORT="$HPCDIST_PORT"  # framework pytorch
  export GLOO_SOCKET_IFNAME=hsn0  # site aspire2a: fabric.interface
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
  export WORLD_SIZE="$HPCDIST_SIZE"  # framework pytorch
  export RANK="$HPCDIST_RANK"  # framework pytorch
  export LOCAL_RANK="$HPCDIST_LOCAL_RANK"  # framework pytorch
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"  # framework pytorch
  export NODE_RANK="$HPCDIST_NODE"  # framework pytorch
}

# What starts them.
launch() {
  # mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE": launcher mpirun
  # --prefix "$(dirname "$(dirname "$(type -P mpirun)")")": rule mpirun over ssh
  # --map-by slot --bind-to none: launcher mpirun
  # "${hpcdist_exports[@]}": variables of the plan
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
