#!/bin/bash
# rule the script is bash
#PBS -S /bin/bash
# rule run directory
#PBS -j oe
# rule run directory
#PBS -o /scratch/me/runs/container-1/logs/job.out
# container.yml name
#PBS -N container
# container.yml batch.account
#PBS -A proj
# site polaris: partitions.debug
#PBS -q debug
# site polaris: partitions.debug
#PBS -l select=2:mpiprocs=1:system=polaris
# site polaris: whole_nodes
#PBS -l place=scatter
# site polaris: walltime
#PBS -l walltime=00:30:00
# default
#PBS -r n
# site polaris: pbs.keep
#PBS -k doe
# site polaris: environment
#PBS -V
# site polaris: directives.mandatory
#PBS -l filesystems=home:eagle
# Made by hpcdist 0.1.0 for site polaris. It needs no hpcdist on the nodes, and runs by hand as well: what is this
# job's own comes first; the runtime below, the same in every job, then runs it.
# shellcheck disable=SC2016,SC2034,SC2154,SC2155,SC2317,SC2329 # the runtime reads and sets what seems unused or unset here
trap 'echo "hpcdist: this script is incomplete: its runtime is missing" >&2; exit 86' EXIT
set +Cefkmu +o pipefail +o posix && unset -f setup task_setup # which the login shell may have set

# What the runtime is told of this job.
declare -A hpcdist=(
  [job]='container: 2 tasks by pals, 2 nodes, 8 GPUs' [run_dir]=/scratch/me/runs/container-1
  [scheduler]=pbs [submit_environment]=inherit [walltime]=00:30:00
  [launcher]=pals [program]=mpiexec [mode]=tasks [rank]=PMI_RANK [size]=PMI_SIZE [label]=1 [starts_processes]=1
  [nodes]=2 [tasks]=2 [tasks_per_node]='1(x2)' [hostfile]=%s%.0s [processes]=1
  [gpus]=task [gpu_variable]=CUDA_VISIBLE_DEVICES [gpu_devices]='/dev/nvidia[0-9]*' [gpu_usage]=30
  [ports]=16
)
# Equal tasks on consecutive nodes, a row each, with the place of the first.
hpcdist_tasks=(
  # role   index rank tasks per_replica per_node node local_rank cpu cpus gpu gpus per_gpu processes
  " master 0     0    1     1           1        0    0          0   64   0   4    1       4"
  " worker 0     1    1     1           1        1    0          0   64   0   4    1       4"
)

# The command.
program() {
  write_program <<'COMMAND'
python train.py
COMMAND
}

# What is needed before anything starts.
setup() {
  export TMPDIR=/tmp  # site polaris: setup
  export LD_LIBRARY_PATH="/soft/libraries/hwloc/lib:/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"  # site polaris: setup
  module use /soft/modulefiles  # site polaris: container.setup
  module load spack-pe-base/0.6.2  # site polaris: container.setup
  module load apptainer  # site polaris: container.setup
  module load cray-mpich-abi  # site polaris: container.setup
  type apptainer >/dev/null 2>&1 || fail "there is no apptainer on $(uname -n); load its module in the site file, or give --no-container to run with the site's own modules"  # container apptainer
  [[ -e /images/torch.sif ]] || fail there is no image /images/torch.sif on "$(uname -n)"  # container apptainer
  [[ $PWD$HPCDIST_RUN_DIR != *[,:]* ]] || fail "a path with , or : cannot be bound: $PWD"  # container apptainer
}

# The variables of all tasks.
environment() {
  export PYTHONUNBUFFERED=1  # default
  ! found "/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib/libnccl-net.so" || export NCCL_NET='AWS Libfabric'  # site polaris: fabric.env.NCCL_NET (if /soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib/libnccl-net.so is found)
  export NCCL_NET_GDR_LEVEL=PHB  # site polaris: fabric.env.NCCL_NET_GDR_LEVEL
  export NCCL_CROSS_NIC=1  # site polaris: fabric.env.NCCL_CROSS_NIC
  export NCCL_COLLNET_ENABLE=1  # site polaris: fabric.env.NCCL_COLLNET_ENABLE
  export FI_MR_CACHE_MONITOR=userfaultfd  # site polaris: fabric.env.FI_MR_CACHE_MONITOR
  export FI_CXI_DISABLE_HOST_REGISTER=1  # site polaris: fabric.env.FI_CXI_DISABLE_HOST_REGISTER
  export FI_CXI_DEFAULT_CQ_SIZE=131072  # site polaris: fabric.env.FI_CXI_DEFAULT_CQ_SIZE
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"  # polyaxon
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"  # polyaxon
  export POLYAXON_RUN_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_DATA_PATHS='{}'  # polyaxon
  export POLYAXON_PARAMS='{}'  # polyaxon
  export POLYAXON_DECLARATIONS='{}'  # polyaxon
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.container", "experiment_uuid": "container", "framework": "pytorch", "user": null}'  # polyaxon
  export OMP_NUM_THREADS=16  # framework pytorch
  export GREETING='it'"'"'s $HOME'  # container.yml environment.env_vars.GREETING
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
  # mpiexec -n 2 --ppn 1 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 64 --cpu-bind depth: launcher pals
  # "${hpcdist_task[@]}": task wrapper
  # apptainer exec --nv: container apptainer
  # --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR": what every task reads and writes
  # --bind "/opt/cray:/opt/cray" --bind "/var/run/palsd:/var/run/palsd": site polaris: container.binds
  # --pwd "$PWD": container apptainer
  # --fakeroot: site polaris: container.args
  # /images/torch.sif: container.yml build.image
  # bash -c export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@" hpcdist "$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/pals/1.2.12/lib": site polaris: container.library_path
  # torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python: framework pytorch
  # bash "$HPCDIST_JOB_DIR/command.sh": container.yml run.cmd
  exec mpiexec -n 2 --ppn 1 --hostfile "$HPCDIST_HOSTFILE" --envall --depth 64 --cpu-bind depth \
    "${hpcdist_task[@]}" \
    apptainer exec --nv --bind "$PWD:$PWD" --bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR" --bind "/opt/cray:/opt/cray" --bind "/var/run/palsd:/var/run/palsd" --pwd "$PWD" --fakeroot /images/torch.sif bash -c 'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"' hpcdist "$CRAY_LD_LIBRARY_PATH:$LD_LIBRARY_PATH:/opt/cray/pe/pals/1.2.12/lib" torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=static --rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT" --rdzv-id="$HPCDIST_JOB_ID" --max-restarts=0 --no-python \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
