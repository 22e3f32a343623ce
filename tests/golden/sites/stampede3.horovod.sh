#!/bin/bash
# rule run directory
#SBATCH --output=horovod-%j.out
# horovod.yml name
#SBATCH --job-name=horovod
# default
#SBATCH --no-requeue
# site stampede3: environment
#SBATCH --export=ALL
# horovod.yml batch.account
#SBATCH --account=proj
# site stampede3: partitions.h100
#SBATCH --partition=h100
# horovod.yml batch.walltime
#SBATCH --time=01:00:00
# site stampede3: whole_nodes
#SBATCH --exclusive
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --nodes=2
# horovod.yml batch.nodes and horovod.yml environment.replicas.per_node
#SBATCH --ntasks-per-node=4
# site stampede3: partitions.h100
#SBATCH --cpus-per-task=24
# horovod: 8 tasks by ibrun, 2 nodes, 8 GPUs, for site stampede3. Written by hpcdist 0.1.0.

set +efu +o pipefail # whatever the login shell has exported
fail() { echo "hpcdist: $*" >&2; exit 86; }

[[ ${SLURM_JOB_ID:-} ]] || fail "this script is for sbatch"
# What the submitting shell, or sbatch for the job, has set are no options of srun.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_HOSTFILE SLURM_EXPORT_ENV

export PYTHONUNBUFFERED=1  # default

# The nodes, in the order of the plan.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
((${#nodes[@]} == 2)) || fail "this job has ${#nodes[@]} nodes, the plan 2"
export HPCDIST_HOSTS="${nodes[*]}"

# Each task checks that it is where the plan has it, sets its variables, and becomes the program.
task() {
  fail() { echo "hpcdist: rank ${PMI_RANK:-?} on $(uname -n): $*" >&2; exit 86; }
  ((PMI_SIZE == 8)) || fail "ibrun started $PMI_SIZE tasks, the plan has 8"
  export HPCDIST_RANK=$PMI_RANK HPCDIST_SIZE=8 HPCDIST_LOCAL_SIZE=4
  export HPCDIST_LOCAL_RANK=$((HPCDIST_RANK % 4)) HPCDIST_NODE=$((HPCDIST_RANK / 4))
  read -ra nodes <<<"$HPCDIST_HOSTS"
  read -r here </proc/sys/kernel/hostname
  [[ ${here%%.*} == "${nodes[HPCDIST_NODE]%%.*}" ]] || fail "the plan has it on ${nodes[HPCDIST_NODE]}"
  mapfile -t gpus < <(compgen -G "/dev/nvidia[0-9]*") && gpus=("${!gpus[@]}")
  [[ ! -v CUDA_VISIBLE_DEVICES ]] || IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  ((${#gpus[@]} >= 4)) || fail "it sees ${#gpus[@]} GPUs, the plan has 4 on its node"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-24}
  # NCCL and InfiniBand need what the node allows of open files and pinned memory.
  ulimit -S -n hard
  ulimit -S -l hard
  exec > >(trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /") 2>&1 # whole lines, each with its rank
  exec python train.py
}

# ibrun -n 8 -o 0: launcher ibrun
# task_affinity: site stampede3: launchers.ibrun.binding
# the command: horovod.yml run.cmd
exec ibrun -n 8 -o 0 task_affinity bash -c "$(declare -f task); task"
