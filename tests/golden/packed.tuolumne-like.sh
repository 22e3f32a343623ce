#!/bin/bash
#flux: --output=/scratch/me/runs/packed-1/logs/job.out
#flux: --job-name=packed
#flux: --bank=proj
#flux: --queue=pbatch
#flux: --time-limit=7200s
#flux: --exclusive
#flux: --nodes=4
#flux: --nslots=4
#flux: --cores-per-slot=96
#flux: --setopt=gpu-affinity=off
#flux: --setattr=rdzv_get_en=0
# Made by hpcdist 0.1.0 for site tuolumne-like. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='packed: 200 trials, 16 at once by flux, 4 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/packed-1
  [scheduler]=flux [submit_environment]=inherit [walltime]=02:00:00 [trials]=trials.tsv [packed]=16
  [launcher]=flux [mode]=tasks [rank]=FLUX_TASK_RANK [size]=FLUX_JOB_SIZE
  [nodes]=4 [tasks]=16 [tasks_per_node]='4(x4)' [threads]=default
  [gpus]=task [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=64
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    16    1           4        0    0          0   24   0   1    1       1"
)

# The command.
program() {
  trial_program
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1
  export NCCL_NET_GDR_LEVEL=3
  export NCCL_MIN_NCHANNELS=24
  export NCCL_CROSS_NIC=1
  export NCCL_SOCKET_IFNAME=hsi0
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{"seed": 0}'
  export POLYAXON_DECLARATIONS='{"seed": 0}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.packed", "experiment_uuid": "packed", "framework": "pytorch", "user": null}'
  export MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"
  export MASTER_PORT="$HPCDIST_PORT"
  export GLOO_SOCKET_IFNAME=hsi0
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
  export WORLD_SIZE="$HPCDIST_SIZE"
  export RANK="$HPCDIST_RANK"
  export LOCAL_RANK="0"
  export LOCAL_WORLD_SIZE="$HPCDIST_LOCAL_SIZE"
  export NODE_RANK="$HPCDIST_NODE"
}

# What a task, a worker, runs for each trial.
trial() {
  exec \
    bash "$HPCDIST_JOB_DIR/command.sh"
}

# What starts them.
launch() {
  start_flux flux run --nodes=4 --ntasks=16 --cores-per-task=24 --setopt=exit-on-error --setopt=exit-timeout=none --setopt=gpu-affinity=off --setopt=cpu-affinity=per-task --setopt=mpibind=off \
    "${hpcdist_task[@]}"
}
