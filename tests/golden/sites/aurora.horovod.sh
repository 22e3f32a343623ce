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
#PBS -A proj
# site aurora: partitions.debug-scaling
#PBS -q debug-scaling
# site aurora: partitions.debug-scaling
#PBS -l select=4:mpiprocs=12
# site aurora: whole_nodes
#PBS -l place=scatter
# horovod_digits.yml batch.walltime
#PBS -l walltime=00:10:00
# default
#PBS -r n
# site aurora: pbs.keep
#PBS -k doe
# site aurora: directives.mandatory
#PBS -l filesystems=home:flare
# Made by hpcdist 0.1.0 for site aurora. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='horovod-digits: 48 tasks by pals, 4 nodes, 48 GPUs' [run_dir]=/scratch/me/runs/horovod-digits-1
  [scheduler]=pbs [submit_environment]=clean [walltime]=00:10:00
  [launcher]=pals [program]=mpiexec [mode]=tasks [rank]=PMI_RANK [size]=PMI_SIZE [label]=1
  [nodes]=4 [tasks]=48 [tasks_per_node]='12(x4)' [hostfile]=%s%.0s [threads]=own
  [gpus]=node [gpu_variable]=ZE_AFFINITY_MASK [gpu_devices]='/dev/dri/renderD*'
  [ports]=16 [suffix]=.hsn.cm.aurora.alcf.anl.gov
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    12    12          12       0    0          0   8    0   1    1       1"
  " worker 0     12   36    12          12       1    0          0   8    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python examples/horovod_digits.py --lr=0.02 --epochs=10
COMMAND
}

# What is needed before anything starts.
setup() {
  load_module frameworks 'site aurora: modules'  # site aurora: modules
  export ZE_FLAT_DEVICE_HIERARCHY=FLAT ZE_AFFINITY_MASK=0,1,2,3,4,5,6,7,8,9,10,11  # site aurora: setup
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export CCL_PROCESS_LAUNCHER=pmix  # site aurora: fabric.env.CCL_PROCESS_LAUNCHER
  export CCL_ATL_TRANSPORT=mpi  # site aurora: fabric.env.CCL_ATL_TRANSPORT
  export CCL_KVS_MODE=mpi  # site aurora: fabric.env.CCL_KVS_MODE
  export FI_MR_CACHE_MONITOR=userfaultfd  # site aurora: fabric.env.FI_MR_CACHE_MONITOR
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
  # mpiexec -n 48 --ppn 12 --hostfile "$HPCDIST_HOSTFILE" --envall: launcher pals
  # --cpu-bind list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100: site aurora: node_types.max1550.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": horovod_digits.yml run.cmd
  exec mpiexec -n 48 --ppn 12 --hostfile "$HPCDIST_HOSTFILE" --envall --cpu-bind list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
