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
#PBS -A proj
# site aurora: partitions.debug
#PBS -q debug
# pytorch.yml batch.nodes and pytorch.yml environment.replicas.per_node
#PBS -l select=2:mpiprocs=12
# site aurora: whole_nodes
#PBS -l place=scatter
# pytorch.yml batch.walltime
#PBS -l walltime=01:00:00
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
  [job]='pytorch: 24 tasks by pals, 2 nodes, 24 GPUs' [run_dir]=/scratch/me/runs/pytorch-1
  [scheduler]=pbs [submit_environment]=clean [walltime]=01:00:00
  [launcher]=pals [program]=mpiexec [mode]=tasks [rank]=PMI_RANK [size]=PMI_SIZE [label]=1
  [nodes]=2 [tasks]=24 [tasks_per_node]='12(x2)' [hostfile]=%s%.0s [threads]=own
  [gpus]=node [gpu_variable]=ZE_AFFINITY_MASK [gpu_devices]='/dev/dri/renderD*' [gpu_usage]=30
  [ports]=16 [suffix]=.hsn.cm.aurora.alcf.anl.gov
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    12    12          12       0    0          0   4    0   1    1       1"
  " worker 0     12   12    12          12       1    0          0   4    0   1    1       1"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  load_module frameworks 'site aurora: modules'  # site aurora: modules
  export TMPDIR=/tmp  # site aurora: setup
  export ZE_FLAT_DEVICE_HIERARCHY=FLAT ZE_AFFINITY_MASK=0,1,2,3,4,5,6,7,8,9,10,11  # site aurora: setup
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  export CCL_PROCESS_LAUNCHER=pmix  # site aurora: fabric.env.CCL_PROCESS_LAUNCHER
  export CCL_ATL_TRANSPORT=mpi  # site aurora: fabric.env.CCL_ATL_TRANSPORT
  export CCL_KVS_MODE=mpi  # site aurora: fabric.env.CCL_KVS_MODE
  export CCL_BCAST=double_tree  # site aurora: fabric.env.CCL_BCAST (multi_node, oneccl)
  export CCL_CONFIGURATION=cpu_gpu_dpcpp  # site aurora: fabric.env.CCL_CONFIGURATION (oneccl)
  export CCL_CONFIGURATION_PATH=''  # site aurora: fabric.env.CCL_CONFIGURATION_PATH (oneccl)
  export FI_PROVIDER=cxi  # site aurora: fabric.env.FI_PROVIDER
  export PALS_PMI=pmix  # site aurora: fabric.env.PALS_PMI
  export FI_MR_CACHE_MONITOR=userfaultfd  # site aurora: fabric.env.FI_MR_CACHE_MONITOR
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
  # mpiexec -n 24 --ppn 12 --hostfile "$HPCDIST_HOSTFILE" --envall: launcher pals
  # --cpu-bind list:4-7:8-11:12-15:16-19:20-23:24-27:56-59:60-63:64-67:68-71:72-75:76-79: site aurora: node_types.max1550.gpu_cpus
  # "${hpcdist_task[@]}": task wrapper
  # bash "$HPCDIST_JOB_DIR/command.sh": pytorch.yml run.cmd
  exec mpiexec -n 24 --ppn 12 --hostfile "$HPCDIST_HOSTFILE" --envall --cpu-bind list:4-7:8-11:12-15:16-19:20-23:24-27:56-59:60-63:64-67:68-71:72-75:76-79 \
    "${hpcdist_task[@]}" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
