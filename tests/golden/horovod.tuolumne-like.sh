#!/bin/bash
#flux: --output=/scratch/me/runs/horovod-digits-1/logs/job.out
#flux: --job-name=horovod-digits
#flux: --bank=proj
#flux: --queue=pbatch
#flux: --time-limit=600s
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
  [job]='horovod-digits: 16 tasks by flux, 4 nodes, 16 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=flux [submit_environment]=inherit [walltime]=00:10:00
  [launcher]=flux [mode]=tasks [rank]=FLUX_TASK_RANK [size]=FLUX_JOB_SIZE
  [nodes]=4 [tasks]=16 [tasks_per_node]='4(x4)' [threads]=default
  [gpus]=node [gpu_variable]=ROCR_VISIBLE_DEVICES [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    4     4           4        0    0          0   24   0   1    1       1"
  " worker 0     4    12    4           4        1    0          0   24   0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
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
  export POLYAXON_PARAMS='{"lr": 0.02, "epochs": 10}'
  export POLYAXON_DECLARATIONS='{"lr": 0.02, "epochs": 10}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.horovod-digits", "experiment_uuid": "horovod-digits", "framework": "horovod", "user": null}'
}

# The variables of each task.
task_environment() {
  export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
}

# What starts them.
launch() {
  start_flux flux run --nodes=4 --ntasks=16 --cores-per-task=24 --label-io --setopt=exit-on-error --setopt=exit-timeout=none --setopt=gpu-affinity=off --setopt=cpu-affinity=per-task --setopt=mpibind=off \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
