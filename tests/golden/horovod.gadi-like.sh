#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# rule run directory
#PBS -o /scratch/me/runs/horovod-digits-1/logs/job.out
# horovod_digits.yml name
#PBS -N horovod-digits
# horovod_digits.yml batch.account
#PBS -P proj
# site gadi-like: partitions.gpuvolta
#PBS -q gpuvolta
# site gadi-like: partitions.gpuvolta (12 CPUs a GPU: site gadi-like: node_types.v100.cpus_per_gpu)
#PBS -l ncpus=192
# site gadi-like: gpus
#PBS -l ngpus=16
# horovod_digits.yml batch.walltime
#PBS -l walltime=00:10:00
# default
#PBS -r n
# site gadi-like: environment
#PBS -V
# site gadi-like: directives.mandatory
#PBS -l wd
# Made by hpcdist 0.1.0 for site gadi-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 16 tasks by mpirun, 4 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=pbs [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [remote_shell]=agent
  [nodes]=4 [tasks]=16 [tasks_per_node]='4(x4)' [hostfile]='%s slots=%s' [threads]=own
  [gpus]=node [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30 [shared_gpus]=1 [gpu_hook]='PBS'"'"'s cgroups hook'
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   2    0   1    1       1"
  " worker 0     4    12    4           4        1    0          0   2    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
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
  export POLYAXON_PARAMS='{"lr": 0.02, "epochs": 10}'  # polyaxon
  export POLYAXON_DECLARATIONS='{"lr": 0.02, "epochs": 10}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod-digits", "experiment_uuid": "horovod-digits", "framework": "horovod", "user": null}'  # polyaxon
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"  # polyaxon
}

# What starts them.
launch() {
  # mpirun -np 16 --hostfile "$HPCDIST_HOSTFILE": launcher mpirun
  # --prefix "$(dirname "$(dirname "$(type -P mpirun)")")": rule mpirun over ssh
  # --map-by slot --bind-to none: launcher mpirun
  # "${hpcdist_exports[@]}": variables of the plan
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod_digits.yml run.cmd
  exec mpirun -np 16 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
