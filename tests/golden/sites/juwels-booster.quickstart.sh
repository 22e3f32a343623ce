#!/bin/bash
#SBATCH --output=quickstart-%j.out
#SBATCH --job-name=quickstart
#SBATCH --no-requeue
#SBATCH --export=ALL
#SBATCH --account=proj
#SBATCH --partition=booster
#SBATCH --time=00:10:00
#SBATCH --exclusive
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
# Made by hpcdist 0.1.0 for site juwels-booster. It needs no hpcdist on the nodes, and runs by hand as well.
fail() {
  echo "hpcdist: $*" >&2
  exit 86
}
export HPCDIST_RUN_DIR="$SLURM_SUBMIT_DIR/hpcdist-$SLURM_JOB_ID"
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
# Options of the login shell, and those of this script, are not options of the step.
unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
  SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_MPI_TYPE SLURM_EXPORT_ENV SLURM_HOSTFILE

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
    kill -s "$1" -- "$hpcdist_program" 2>/dev/null
  elif [[ $1 != USR[12] ]]; then
    exit $((128 + $(kill -l "$1")))
  fi
}
trap 'forward TERM' TERM INT QUIT ALRM XCPU XFSZ
trap 'forward HUP' HUP
trap 'forward USR1' USR1
trap 'forward USR2' USR2

# The nodes, numbered from 0 as the plan numbers them.
((${#hpcdist_nodes[@]} == 1)) || fail "the allocation has ${#hpcdist_nodes[@]} nodes, the plan needs 1"
echo "hpcdist: quickstart: 2 tasks by srun, 1 node: ${hpcdist_nodes[*]:0:8} (job $HPCDIST_JOB_ID)"

# How the other tasks reach the first node; and this job's 16 ports, below those that Linux hands out itself;
# elements of an array may share a node.
HPCDIST_HEAD_ADDRESS=${hpcdist_nodes[0]%%.*}i
# A node may call itself 127.0.1.1, which means another machine to the others.
hpcdist_name=$HPCDIST_HEAD_ADDRESS
while read -r HPCDIST_HEAD_ADDRESS _; do [[ $HPCDIST_HEAD_ADDRESS == 127.* ]] || break; done < <(getent ahostsv4 "$hpcdist_name")
[[ ${HPCDIST_HEAD_ADDRESS:-127.} != 127.* ]] || fail "$hpcdist_name has no address that other nodes could reach"
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
1 2
NODES_AND_TASKS_ON_EACH

# The command. Its shell waits for what a signal ends before it ends itself, and then runs nothing more.
keep command.sh <<'COMMAND' || unwritten
trap 'exit $(($? ? $? : 143))' TERM INT HUP
trap : USR1 USR2
python examples/quickstart.py --lr=0.1 --epochs=20
COMMAND

# The task wrapper, one for all tasks, and what starts it on each node, where the run directory may be missing. (srun gives
# the highest exit code of all tasks, but rather a signal's: none may be killed by the TERM that follows.)
keep task.sh <<'TASK_WRAPPER' || unwritten
#!/bin/bash
# One task: finds its place in the plan, checks that the launcher did what was planned, and runs the program.

# The first task of all that fails is the cause; what the launcher then does to the others is not. The job's script
# tells of it: this task may be killed before it could. One that was told to end leaves a file of another name.
first_to_fail() {
  local file=$HPCDIST_FAILURE${hpcdist_ended_by:+.$hpcdist_ended_by}
  (set -C && echo "$1 $2 $(uname -n)${3:+ $3}" >"$file") 2>/dev/null || [[ -s $file ]] ||
    echo "hpcdist: rank $2 on $(uname -n)${3:+: $3} (exit code $1; this cannot be written to $file)" >&2
}
fail() {
  first_to_fail 86 "${rank:-?}" "$*"
  exit 86
}

# Equal tasks on consecutive nodes, a row each: role, index, first rank, tasks, tasks per replica, tasks per node,
# and of the first: node, local rank, cpu, cpus, gpu, gpus, tasks per gpu.
readonly hpcdist_rows='\
master 0 0 1 1 1 0 0 0 1 0 0 1
worker 0 1 1 1 1 0 1 1 1 0 0 1
'

# Sets HPCDIST_RANK and its like, and the GPUs of this task; all other names stay those of the program.
take_place() {
  local rank=${SLURM_PROCID:-} size=${SLURM_NTASKS:-}
  local role index first tasks per_replica per_node node local_rank cpus
  local offset slot nodes=0 count local_size planned=() here
  [[ $rank ]] || fail "srun set no SLURM_PROCID; start this job by srun, as the script does"
  ((size == 2)) || fail "srun started $size tasks, the plan has 2; leave the counts in the script as they are, or submit the experiment again"
  [[ ${PMIX_RANK:-${PMI_RANK:-}} == "$rank" ]] || fail "srun gave no PMI, so each task would be rank 0 of a world of its own; set launchers.srun.mpi in the site file to a type that 'srun --mpi=list' shows and this MPI knows (Open MPI: pmix, MPICH: pmi2), or batch.launcher to mpirun"
  while read -r role index first tasks per_replica per_node node local_rank _ cpus _; do
    offset=$((rank - first))
    ((offset < tasks)) && break
  done <<<"$hpcdist_rows" || fail "rank $rank is not found in the plan; is ${TMPDIR:-/tmp} full?"
  slot=$((offset % per_node))
  node=$((node + offset / per_node))
  while read -r count local_size; do
    ((node < (nodes += count))) && break
  done <<'NODES_AND_TASKS_ON_EACH' || fail "node $node is not found in the plan; is ${TMPDIR:-/tmp} full?"
1 2
NODES_AND_TASKS_ON_EACH
  mapfile -t -s "$node" -n 1 planned <"$HPCDIST_JOB_DIR/nodes"
  # Slurm's name of a node may be another than its own; horovodrun hands on the first node's SLURMD_NODENAME.
  read -r here </proc/sys/kernel/hostname
  [[ ${planned[0]} == localhost || ${here%%.*} == "${planned[0]%%.*}" || ${SLURMD_NODENAME:-?} == "${planned[0]}" ]] ||
    fail "this is $here, the plan has this rank on ${planned[0]:-no node}; the launcher placed tasks in an order of its own"
  export HPCDIST_RANK=$rank HPCDIST_SIZE=$size HPCDIST_LOCAL_RANK=$((local_rank + slot)) HPCDIST_LOCAL_SIZE=$local_size
  export HPCDIST_NODE=$node HPCDIST_NODES=1 HPCDIST_ADDRESS=${planned[0]%%.*}i
  # Not what a node may call itself, 127.0.1.1, which means another machine to the others.
  while read -r here _; do
    [[ $here == 127.* ]] || { HPCDIST_ADDRESS=$here && break; }
  done < <(getent ahostsv4 "$HPCDIST_ADDRESS")
  export HPCDIST_ROLE=$role HPCDIST_INDEX=$((index + offset / per_replica))
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus}
}

# Sets the number of processes that the kernel has killed for lack of memory where this task runs.
count_oom_kills() {
  local kind path file name count
  hpcdist_oom_kills=0
  while IFS=: read -r _ kind path; do
    file=/sys/fs/cgroup$path/memory.events
    [[ $kind != memory ]] || file=/sys/fs/cgroup/memory$path/memory.oom_control
    [[ ! -r $file ]] || while read -r name count; do
      [[ $name != oom_kill ]] || hpcdist_oom_kills=$count
    done <"$file"
  done </proc/self/cgroup
} 2>/dev/null

take_place
# As many open files and as much pinned memory as the node allows: NCCL and InfiniBand need both.
ulimit -S -n hard 2>/dev/null
ulimit -S -l hard 2>/dev/null
export POLYAXON_TASK_INFO="{\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
# Launchers signal the whole process group, so the program hears it; this shell only waits for its exit code.
trap : INT HUP QUIT ALRM USR1 USR2 XCPU XFSZ
trap 'hpcdist_ended_by=TERM' TERM
[[ ! ${hpcdist_ended_by:-} ]] || exit 143
count_oom_kills
hpcdist_oom_kills_before=$hpcdist_oom_kills
"$@"
code=$?
if ((code != 0)); then
  count_oom_kills
  if ((hpcdist_oom_kills > hpcdist_oom_kills_before)); then
    first_to_fail "$code" "$HPCDIST_RANK" "the kernel killed a process for lack of memory (exit code $code); ask for more by environment.resources.memory"
  else
    first_to_fail "$code" "$HPCDIST_RANK"
  fi
fi
exit "$code"
TASK_WRAPPER
# shellcheck disable=SC2016 # the task expands it
hpcdist_start='trap hpcdist_ended_by=TERM TERM; hpcdist_is_whole() { local LC_ALL=C text; IFS= read -rd "" text <"$1"; [[ -O $1 ]] && ((${#text} == $2)); } 2>/dev/null; for hpcdist_file in "$0 4737" "${0%/*}/command.sh 112"; do hpcdist_is_whole "${hpcdist_file% *}" "${hpcdist_file##* }" || { echo "hpcdist: rank ${SLURM_PROCID:-none} on $(uname -n): ${hpcdist_file% *} is missing, cut short or not your own; does this node share its file system, and is the disk full?" >&2; sleep 2; exit 186; }; done; . "$0"'
move_kept

# `module` is a function, which a script does not always inherit: it is where login shells find it.
find_modules() {
  local file
  for file in "${LMOD_PKG:+$LMOD_PKG/init/bash}" "${MODULESHOME:+$MODULESHOME/init/bash}" /etc/profile.d/*mod*.sh; do
    type module >/dev/null 2>&1 && return
    # shellcheck source=/dev/null # the site's own file
    [[ ! -r $file ]] || source "$file"
  done
  type module >/dev/null 2>&1
}
# Loads module $1, which $2 names. (The module command of Modules 3 returns 0 whatever happens; Lmod and Modules 4 set
# one of the two variables.)
load_module() {
  local before=${LOADEDMODULES:-}
  find_modules || fail "there is no module command on $(uname -n) to load $1 ($2); name the file that defines it under 'source' in the site file"
  module load "$1" && [[ ${LMOD_CMD:-}${MODULES_CMD:-} || ${LOADEDMODULES:-} != "$before" || :$before: == *":$1"[:/]* ]] ||
    fail "module $1 ($2) cannot be loaded on $(uname -n); 'module avail' there shows those that can"
}

# What is needed before anything starts.
load_module Stages/2025 'site juwels-booster: modules'
load_module GCC 'site juwels-booster: modules'
load_module OpenMPI 'site juwels-booster: modules'
export CUDA_VISIBLE_DEVICES=0,1,2,3

# shellcheck disable=SC2016 # what a value means is for the program to say
launch() {
  export PYTHONUNBUFFERED=1
  export NCCL_SOCKET_IFNAME=ib0
  export UCX_RC_TIMEOUT=4s
  export POLYAXON_RUN_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_OUTPUTS_PATH="$HPCDIST_OUTPUTS"
  export POLYAXON_LOGS_PATH="$HPCDIST_RUN_DIR/logs"
  export POLYAXON_RUN_DATA_PATHS='{}'
  export POLYAXON_DATA_PATHS='{}'
  export POLYAXON_PARAMS='{"lr": 0.1, "epochs": 20}'
  export POLYAXON_DECLARATIONS='{"lr": 0.1, "epochs": 20}'
  export POLYAXON_EXPERIMENT_INFO='{"project_name": "hpcdist", "experiment_name": "hpcdist.quickstart", "experiment_uuid": "quickstart", "framework": "mpi", "user": null}'
  type srun >/dev/null 2>&1 || fail "there is no srun on $(uname -n); load its module in the site file, or choose another batch.launcher"
  exec srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=1 --kill-on-bad-exit=1 --label \
    bash -c "$hpcdist_start" "$HPCDIST_JOB_DIR/task.sh" \
    bash "$HPCDIST_JOB_DIR/command.sh"
}
run() {
  local code status=127 rank host text failure
  # A name that no node has looked for before: network file systems remember what was not there.
  export HPCDIST_FAILURE="$HPCDIST_JOB_DIR/failure.$hpcdist_restarts.$1"
  hpcdist_program=none
  launch &
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
  # The task that failed first tells why, and its exit code is the job's: a launcher may give that of a task it killed,
  # or none. Tasks that were told to end are the cause only if the job was.
  failure=$HPCDIST_FAILURE
  [[ -e $failure || -z ${hpcdist_told_to_end:-} ]] || failure+=.TERM
  if read -r code rank host text 2>/dev/null <"$failure"; then
    status=$code
    case ${text:+told}$status in
    told*) echo "hpcdist: rank $rank on $host: $text" >&2 ;;
    143) ;;
    129 | 1[3-9][0-9]) echo "hpcdist: rank $rank on $host was the first to end, killed by signal $(kill -l "$status")" >&2 ;;
    *) echo "hpcdist: rank $rank on $host was the first to fail, with exit code $status" >&2 ;;
    esac
  elif ((status == 186)); then
    status=86 # of what starts the wrapper; a launcher may give the highest of all tasks
  elif ((status != 0 && status != 86)) && [[ -z ${hpcdist_told_to_end:-} ]]; then
    echo "hpcdist: srun ended with exit code $status, and no task recorded why: a node or a task was lost, or killed; its own messages are above" >&2
  fi
  return "$status"
}
run 0
hpcdist_status=$?
exit "$hpcdist_status"
