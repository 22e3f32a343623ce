#!/bin/bash
#SBATCH --output=/scratch/me/runs/own-mpirun-1/logs/job.out
#SBATCH --job-name=own-mpirun
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --partition=gpu
#SBATCH --time=00:10:00
#SBATCH --constraint=a100
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --mem=2000M
#SBATCH --gres=gpu:a100:4
# Made by hpcdist 0.1.0 for site testbed. It needs no hpcdist on the nodes, and runs by hand as well.
fail() {
  echo "hpcdist: $*" >&2
  exit 86
}
export HPCDIST_RUN_DIR=/scratch/me/runs/own-mpirun-1
hpcdist_job=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:?this script is for sbatch}}
hpcdist_number=$hpcdist_job hpcdist_element=${SLURM_ARRAY_TASK_ID:-}

# Adds the hosts of a list such as n[01-03,7],m5 to the nodes, in Slurm's order.
expand_host() {
  local before ranges after range first number host
  if [[ $1 =~ ^([^[]*)\[([^]]*)\](.*)$ ]]; then
    before=${BASH_REMATCH[1]} ranges=${BASH_REMATCH[2]} after=${BASH_REMATCH[3]}
    for range in ${ranges//,/ }; do
      first=${range%-*}
      for ((number = 10#$first; number <= 10#${range#*-}; number++)); do
        printf -v host '%s%0*d%s' "$before" "${#first}" "$number" "$after"
        expand_host "$host"
      done
    done
  else
    hpcdist_nodes+=("$1")
  fi
}
expand_hosts() {
  local list=$1
  while [[ $list =~ ^(([^],[]|\[[^]]*\])+),?(.*)$ ]]; do
    list=${BASH_REMATCH[3]}
    expand_host "${BASH_REMATCH[1]}"
  done
}
# Should Slurm ever write a list of $2 hosts in another way, it must read it itself.
add_nodes() {
  local before=${#hpcdist_nodes[@]}
  expand_hosts "$1"
  ((${#hpcdist_nodes[@]} - before == $2)) || mapfile -t -O "$before" hpcdist_nodes < <(scontrol show hostnames "$1")
}
hpcdist_nodes=()
add_nodes "$SLURM_JOB_NODELIST" "$SLURM_JOB_NUM_NODES"
# srun since 22.05 does not take it from the job.
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK

# What this run writes, and a line in its event log at the beginning and at the end.
export HPCDIST_JOB_ID=$hpcdist_job${hpcdist_element:+_$hpcdist_element}
export HPCDIST_JOB_DIR="$HPCDIST_RUN_DIR/jobs/$HPCDIST_JOB_ID"
export HPCDIST_HOSTFILE="$HPCDIST_JOB_DIR/hostfile"
export HPCDIST_OUTPUTS="$HPCDIST_RUN_DIR/outputs${hpcdist_element:+/$hpcdist_element}"
(umask 077 && mkdir -p "$HPCDIST_JOB_DIR/new" "$HPCDIST_RUN_DIR/logs" "$HPCDIST_OUTPUTS") ||
  fail "cannot write to $HPCDIST_RUN_DIR on $(uname -n); is it on a file system that the nodes share, and not full?"
[[ -O $HPCDIST_RUN_DIR && ! -L $HPCDIST_RUN_DIR && -O $HPCDIST_JOB_DIR ]] ||
  fail "$HPCDIST_RUN_DIR is not your own: another user could change what this job runs; submit it from a folder that only you can write to"
unwritten() { fail "cannot write to $HPCDIST_RUN_DIR or ${TMPDIR:-/tmp} on $(uname -n); is the disk full, or your quota used up?"; }
note() { printf '%s %s %(%s)T %s\n' "$1" "$HPCDIST_JOB_ID" -1 "$2" >>"$HPCDIST_RUN_DIR/events"; }
# Not every batch system tells how often it has run this job; the event log does.
hpcdist_restarts=$(grep -csF "started $HPCDIST_JOB_ID " "$HPCDIST_RUN_DIR/events")
note started "${hpcdist_restarts:=0}" || unwritten
# A signal that is not trapped ends this script with the code of an earlier command: 0 is that of the program, or unknown.
# shellcheck disable=SC2317,SC2329 # the traps call these
finish() {
  local code=$?
  ((code != 0)) || code=${hpcdist_status:-unknown}
  note ended "$code" || echo "hpcdist: the end (exit code $code) cannot be written to $HPCDIST_RUN_DIR/events; is the disk full?" >&2
  [[ $code != unknown ]] || fail "this script ended before its program had run; does a line of setup exit?"
}
trap finish EXIT

# Signals go to the program; its exit code becomes the job's. (Background programs ignore INT: they get TERM.) Some batch
# systems send ALRM, XCPU or XFSZ at a limit. Before the program runs, all but USR1 and USR2 end the job.
# shellcheck disable=SC2317,SC2329 # the traps call it
forward() {
  hpcdist_signal=$1
  [[ $1 != TERM ]] || hpcdist_told_to_end=1
  if [[ ${hpcdist_program:-} ]]; then
    kill -s "$1" -- "-$hpcdist_program" 2>/dev/null
  elif [[ $1 != USR[12] ]]; then
    exit $((128 + $(kill -l "$1")))
  fi
}
trap 'forward TERM' TERM INT QUIT ALRM XCPU XFSZ
trap 'forward HUP' HUP
trap 'forward USR1' USR1
trap 'forward USR2' USR2

# The nodes, numbered from 0 as the plan numbers them.
((${#hpcdist_nodes[@]} == 2)) || fail "the allocation has ${#hpcdist_nodes[@]} nodes, the plan needs 2"
echo "hpcdist: own-mpirun: 8 tasks by the command, 2 nodes, 8 GPUs: ${hpcdist_nodes[*]:0:8} (job $HPCDIST_JOB_ID)"

# How the other tasks reach the first node; and this job's 16 ports, below those that Linux hands out itself;
# elements of an array may share a node.
HPCDIST_HEAD_ADDRESS=${hpcdist_nodes[0]}
HPCDIST_PORT=$((20000 + (hpcdist_number + 37 * ${hpcdist_element:-0}) % 750 * 16))
export HPCDIST_HEAD_ADDRESS HPCDIST_PORT

# Writes $2, or what it reads, to a file of this job, and reads it back: a full disk may have cut it short. Files that
# are whole are then moved together to where they are looked for.
keep() {
  local text=${2:-} kept=
  (($# > 1)) || IFS= read -r -d '' text
  printf %s "$text" >"$HPCDIST_JOB_DIR/new/$1" && IFS= read -r -d '' kept <"$HPCDIST_JOB_DIR/new/$1"
  [[ $kept == "$text" ]]
}
move_kept() { mv -f -- "$HPCDIST_JOB_DIR"/new/* "$HPCDIST_JOB_DIR" || unwritten; }

# The nodes; and hosts with their number of tasks, in rank order.
printf -v hpcdist_text '%s\n' "${hpcdist_nodes[@]}"
keep nodes "$hpcdist_text" || unwritten
keep_hostfile() {
  local node=0 count tasks line text=
  while read -r count tasks; do
    for ((; count > 0; count--, node++)); do
      printf -v line '%s slots=%s\n' "${hpcdist_nodes[node]}" "$tasks"
      text+=$line
    done
  done
  keep hostfile "$text"
}
keep_hostfile <<'NODES_AND_TASKS_ON_EACH' || unwritten
2 4
NODES_AND_TASKS_ON_EACH

# The command. Its shell waits for what a signal ends before it ends itself, and then runs nothing more.
keep command.sh <<'COMMAND' || unwritten
trap 'exit $(($? ? $? : 143))' TERM INT HUP
trap : USR1 USR2
mpirun -np 8 --hostfile "$HPCDIST_HOSTFILE" -x NCCL_DEBUG=INFO python train.py
COMMAND
move_kept

# shellcheck disable=SC2016 # what a value means is for the program to say
launch() {
  export PYTHONUNBUFFERED=1
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{}'
  export POLYAXON_DECLARATIONS='{}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.own-mpirun", "experiment_uuid": "own-mpirun", "framework": "horovod", "user": null}'
  # Open MPI refuses root unless told twice.
  ((EUID == 0)) && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  bash "$HPCDIST_JOB_DIR/command.sh"
}
run() {
  local code status=127
  # A name that no node has looked for before: network file systems remember what was not there.
  export HPCDIST_FAILURE="$HPCDIST_JOB_DIR/failure.$hpcdist_restarts.$1"
  hpcdist_program=none
  set -m # a process group of its own, all of which hears signals
  launch &
  set +m
  hpcdist_program=$!
  [[ -z ${hpcdist_told_to_end:-} ]] || forward TERM # which came while there was no program yet
  while :; do
    hpcdist_signal=
    wait "$hpcdist_program"
    code=$?
    # 127: it was gone before this wait, and an earlier one told how it ended.
    ((code == 127 && status != 127)) || status=$code
    [[ $hpcdist_signal ]] || break
  done
  # Launchers have codes of their own for what they were told to end (mpirun 1 or 255).
  ((status == 0 || (status > 128 && status < 255))) || [[ -z ${hpcdist_told_to_end:-} ]] || status=143
  return "$status"
}
run 0
hpcdist_status=$?
exit "$hpcdist_status"
