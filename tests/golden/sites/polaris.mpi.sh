#!/bin/bash
#PBS -S /bin/bash
#PBS -j oe
#PBS -N mpi
#PBS -A proj
#PBS -q debug
#PBS -l select=2:mpiprocs=4:system=polaris
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -r n
#PBS -k doe
#PBS -V
#PBS -l filesystems=home:eagle
# Made by hpcdist 0.1.0 for site polaris. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='mpi: 8 tasks by pals, 2 nodes'
  [scheduler]=pbs [submit_environment]=inherit [walltime]=01:00:00
  [launcher]=pals [program]=mpiexec [mode]=tasks [rank]=PMI_RANK [size]=PMI_SIZE [label]=1
  [nodes]=2 [tasks]=8 [tasks_per_node]='4(x2)' [hostfile]=%s%.0s [threads]=own
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   16   0   0    1       1"
  " worker 0     1    3     1           3        0    1          16  16   0   0    1       1"
  " worker 3     4    4     1           4        1    0          0   16   0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
./simulate
COMMAND
}

# What is needed before anything starts.
setup() {
  export TMPDIR=/tmp
  export LD_LIBRARY_PATH="/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export FI_MR_CACHE_MONITOR=userfaultfd
  export FI_CXI_DISABLE_HOST_REGISTER=1
  export FI_CXI_DEFAULT_CQ_SIZE=131072
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{}'
  export POLYAXON_DECLARATIONS='{}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.mpi", "experiment_uuid": "mpi", "framework": "mpi", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  exec mpiexec -n 8 --ppn 4 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 16 --cpu-bind depth \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
