#!/bin/bash
#PBS -S /bin/bash
#PBS -j oe
#PBS -o /scratch/me/runs/parameter-servers-1/logs/job.out
#PBS -N parameter-servers
#PBS -W group_list=proj
#PBS -q gpu_normal@pbspl4
#PBS -l select=1:ncpus=10:mpiprocs=3:ngpus=2:model=mil_a100+1:ncpus=1:mpiprocs=1:model=rom_ait
#PBS -l place=scatter:excl
#PBS -r n
#PBS -k oed
#PBS -W umask=027
# Made by hpcdist 0.1.0 for site cabeus-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='parameter-servers: 4 tasks by mpirun, 2 nodes, 2 GPUs' [run_dir]=/scratch/me/runs/parameter-servers-1
  [scheduler]=pbs [submit_environment]=clean
  [launcher]=mpirun [program]=mpirun [mode]=tasks [rank]=OMPI_COMM_WORLD_RANK [size]=OMPI_COMM_WORLD_SIZE [label]=1 [remote_shell]=agent
  [nodes]=2 [tasks]=4 [tasks_per_node]='3,1' [components]='1 1' [hostfile]='%s slots=%s' [threads]=own
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
  [required_roles]=master [required_tasks]=1
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   2    0   0    1       1"
  " worker 0     1    2     1           2        0    1          2   4    0   1    1       1"
  " ps     0     3    1     1           1        1    0          0   1    0   0    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{}'
  export POLYAXON_DECLARATIONS='{}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.parameter-servers", "experiment_uuid": "parameter-servers", "framework": "tensorflow", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
  export TF_CONFIG="{\"cluster\": {\"chief\": [$(peers master)], \"worker\": [$(peers worker)], \"ps\": [$(peers ps)]}, \"task\": {\"type\": \"${HPCDIST_ROLE/master/chief}\", \"index\": $HPCDIST_INDEX}, \"model_dir\": \"$HPCDIST_OUTPUTS\", \"environment\": \"cloud\"}"
}

# What starts them.
launch() {
  exec mpirun -np 4 --hostfile "$HPCDIST_HOSTFILE" --prefix "$(dirname "$(dirname "$(type -P mpirun)")")" --map-by slot --bind-to none "${hpcdist_exports[@]}" \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
