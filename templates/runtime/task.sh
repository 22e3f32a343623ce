# --- One task: finds its place in the plan, checks that the launcher did what was planned, and runs the program

hpcdist_begin_task() {
  local variable=${hpcdist[gpu_variable]:-CUDA_VISIBLE_DEVICES}
  hpcdist_begin_faults
  hpcdist_visible=${!variable:-} # as the batch system set it
  hpcdist_set_task_env
  # The highest limits of open files and pinned memory that the node allows: NCCL and InfiniBand need both.
  ulimit -S -n hard 2>/dev/null
  ulimit -S -l hard 2>/dev/null
}
# The lines of task_setup come here, in no function; one of them may end this shell.
hpcdist_begin_task_setup() { trap hpcdist_end_unprepared EXIT; }
hpcdist_end_unprepared() {
  hpcdist_code=$?
  [[ $BASHPID == "$$" ]] || return 0 # as in hpcdist_finish
  ((hpcdist_code != 0)) || hpcdist_code=86
  hpcdist_first_to_fail "$hpcdist_code" "a line of task_setup ended this task before its program had run (exit code $hpcdist_code)"
  exit "$hpcdist_code"
}
hpcdist_end_task_setup() {
  [[ $(trap -p EXIT) != *hpcdist_end_unprepared* ]] || trap - EXIT
  hpcdist_reset_shell
}
# Nothing here is local: the program may have a variable of such a name.
hpcdist_run_task() {
  task_environment
  hpcdist_add_modules
  hpcdist_set_polyaxon "$HPCDIST_RANK"
  [[ ! ${hpcdist[checks_program]:-} ]] || type "$1" >/dev/null 2>&1 ||
    hpcdist_fail_task "there is no $1 here; load its module by batch.modules, or activate the environment that has it before you submit"
  # Open MPI's own --tag-output splits and mixes lines; sed writes whole lines, each with its rank.
  if [[ ${hpcdist[label]:-} ]]; then
    [[ ! ${hpcdist[error]:-} ]] || exec 2> >(hpcdist_label >&2)
    exec > >(hpcdist_label)
    [[ ${hpcdist[error]:-} ]] || exec 2>&1
  fi
  hpcdist_trap_task_signals
  [[ ! ${hpcdist_ended_by:-} ]] || exit 143
  hpcdist_count_oom_kills
  hpcdist_oom_kills_before=$hpcdist_oom_kills
  [[ ! ${hpcdist[starts_processes]:-} ]] || set -- hpcdist_become "$@"
  hpcdist_run_signalled "$@"
  hpcdist_code=$?
  hpcdist_end_gpu_usage
  # TERM may reach the program a moment before it reaches this shell.
  ((hpcdist_code != 143)) || [[ ${hpcdist_ended_by:-} ]] || sleep 1
  if ((hpcdist_code != 0)); then
    hpcdist_count_oom_kills
    if ((hpcdist_oom_kills > hpcdist_oom_kills_before)); then
      hpcdist_first_to_fail "$hpcdist_code" "the kernel killed a process for lack of memory (exit code $hpcdist_code); ask for more by environment.resources.memory"
    else
      hpcdist_first_to_fail "$hpcdist_code"
    fi
  elif [[ ${hpcdist_ended_by:-} && ${hpcdist[restart]:-} ]]; then
    hpcdist_code=143 # as in hpcdist_doubt_success: a batch system may signal the tasks alone
    hpcdist_first_to_fail 143 "it ended with exit code 0 when it was told to end; whether it had finished is unknown"
  elif [[ ! ${hpcdist_ended_by:-} && " ${hpcdist[required_roles]:-} " == *" $HPCDIST_ROLE "* ]]; then
    # When all of these have ended well, the job is done: the script ends the others.
    : >"${HPCDIST_ENDED:?}/$HPCDIST_RANK" ||
      hpcdist_fail_task "cannot write to $HPCDIST_ENDED, where the job looks for tasks that ended well; is the disk full?"
  fi
  # A launcher kills the other tasks when one has failed. After TERM, and in the time of the notice, they may be saving: the
  # job's script reads the file.
  if [[ ${hpcdist_ended_by:-} ]] || ((SECONDS <= ${hpcdist_saves_until:--1})); then
    [[ ! -s $HPCDIST_FAILURE${hpcdist_ended_by:+.TERM} ]] || hpcdist_code=0
  fi
  exit "$hpcdist_code"
}
# Launchers signal the whole process group, so the program gets it, and this shell only waits for its exit code. But slurmstepd
# with proctrack/cgroup signals what it has started itself, which is this shell: it passes the signal on.
hpcdist_trap_task_signals() {
  local name
  hpcdist_program='' hpcdist_alone=''
  ! hpcdist_is_signalled_alone || hpcdist_alone=1
  # shellcheck disable=SC2064 # the signal's name is that of now
  for name in TERM INT HUP QUIT ALRM USR1 USR2 XCPU XFSZ; do trap "hpcdist_hear $name" "$name"; done
}
# proctrack/cgroup: src/plugins/proctrack/cgroup/proctrack_cgroup.c of Slurm, proctrack_p_signal. It has each step in a group
# of its own, in version 1 of the hierarchy of the freezer.
hpcdist_is_signalled_alone() {
  local name kind path
  read -r name <"/proc/$PPID/comm" && [[ $name == slurmstepd* ]] && while IFS=: read -r _ kind path; do
    [[ $kind == @(|freezer) && $path == */job_* ]] && return
  done </proc/self/cgroup
  return 1
} 2>/dev/null
hpcdist_hear() {
  hpcdist_signal=$1
  [[ $1 != TERM ]] || hpcdist_ended_by=TERM
  [[ $1 != "${hpcdist[notice]#* }" ]] || hpcdist_saves_until=$((SECONDS + ${hpcdist[notice]% *}))
  [[ ! $hpcdist_alone || ! $hpcdist_program ]] || hpcdist_pass_on "$1"
}
# Asks for the program's children before a shell ends by the signal, and signals that shell first, lest it begin its next line.
# shellcheck disable=SC2046 # these are words
hpcdist_pass_on() { kill -s "$1" "$hpcdist_program" $(hpcdist_below "$1" "$hpcdist_program"); } 2>/dev/null
# A command of several lines is the file command.sh, whose shell waits for the program that it has started. torchrun ends its
# processes when it gets TERM; signals that it would die of it ignores here, and they are for its processes.
hpcdist_below() {
  local pid file='' below
  below=$(cat /proc/"$2"/task/*/children)
  { read -rd '' _ && read -rd '' file; } <"/proc/$2/cmdline"
  if [[ $file == */command.sh ]]; then
    echo "$below" && return
  elif [[ ${hpcdist[starts_processes]:-} && $2 == "$hpcdist_program" ]]; then
    [[ $1 == USR[12] ]] || return
    echo "$below"
  fi
  for pid in $below; do hpcdist_below "$1" "$pid"; done
}
# Runs a program, or a function as a process of its own, and returns its exit code.
hpcdist_run_signalled() {
  if [[ $hpcdist_alone ]]; then
    set -m # without it bash has what runs in the background ignore INT and QUIT
    HPCDIST_PASS_ON=1 "$@" <&0 & # for programs of our own that have started the user's
    set +m
    hpcdist_program=$!
    [[ ! ${hpcdist_ended_by:-} ]] || hpcdist_pass_on TERM # which came before the program started
    hpcdist_code=127
    hpcdist_wait_for_program
    hpcdist_program=
    return "$hpcdist_code"
  elif declare -F "$1" >/dev/null; then
    ("$@")
  else
    "$@"
  fi
}
hpcdist_become() { trap '' USR1 USR2 && exec "$@"; }
hpcdist_label() { trap '' TERM INT HUP USR1 USR2 && exec sed -u "s/^/$HPCDIST_RANK: /"; }
# The first task that fails is the cause, not those that the launcher then ends. The job's script reports it: this task
# may be killed before it could. A task that TERM ended leaves a file of another name. flux run holds output back for half
# a second, and drops that when a task has failed: the last words of this one and of those that fail with it.
hpcdist_first_to_fail() {
  local file=$HPCDIST_FAILURE${hpcdist_ended_by:+.$hpcdist_ended_by} rank=${hpcdist_rank:-?}
  (trap '' TERM INT HUP QUIT ALRM USR1 USR2 XCPU XFSZ && set -C && echo "$1 $rank $(uname -n)${2:+ $2}" >"$file") 2>/dev/null || [[ -s $file ]] ||
    echo "hpcdist: rank $rank on $(uname -n)${2:+: $2} (exit code $1; this cannot be written to $file)" >&2
  hpcdist_record_faults "$1"
  [[ ${hpcdist[launcher]:-} != flux || ${hpcdist_ended_by:-} ]] || sleep 1
}
hpcdist_fail_task() {
  hpcdist_first_to_fail 86 "$*"
  exit 86
}

# Sets HPCDIST_RANK and the other variables of this task, and its GPUs; all other names are left to the program.
hpcdist_set_task_env() {
  local launcher=${hpcdist[launcher]} rank size row item role index first tasks per_replica per_node node local_rank cpus gpu gpus per_gpu
  local processes offset slot nodes=0 local_size planned=() here
  rank=${hpcdist[rank]} size=${hpcdist[size]:-}
  hpcdist_rank=${!rank:-}
  [[ $hpcdist_rank ]] || hpcdist_fail_task "$launcher set no $rank; start this job by $launcher, as the script does"
  rank=$hpcdist_rank
  [[ ! $size ]] || ((${!size:-0} == hpcdist[tasks])) ||
    hpcdist_fail_task "$launcher started ${!size:-} tasks, the plan has ${hpcdist[tasks]}; leave the counts in the script as they are, or submit the experiment again"
  [[ ! ${hpcdist[needs_pmi]:-} || ${PMIX_RANK:-${PMI_RANK:-}} == "$rank" ]] ||
    hpcdist_fail_task "srun gave no PMI${hpcdist[mpi]:+ with --mpi=${hpcdist[mpi]}}, so each task would be rank 0 of a world of its own; set launchers.srun.mpi in the site file to a type that 'srun --mpi=list' shows and this MPI knows (Open MPI: pmix, MPICH: pmi2), or batch.launcher to mpirun"
  for row in "${hpcdist_tasks[@]}"; do
    # shellcheck disable=SC2086 # these are words
    set -- $row
    offset=$((rank - $3))
    ((offset >= $4)) || break
  done
  ((offset >= 0 && offset < $4)) || hpcdist_fail_task "rank $rank is not found in the plan"
  role=$1 index=$2 per_replica=$5 per_node=$6 node=$7 local_rank=$8 cpus=${10} gpu=${11} gpus=${12} per_gpu=${13} processes=${14}
  slot=$((offset % per_node))
  node=$((node + offset / per_node))
  for item in ${hpcdist[tasks_per_node]//,/ }; do
    hpcdist_read_count "$item"
    local_size=${BASH_REMATCH[1]}
    ((node >= (nodes += ${BASH_REMATCH[3]:-1}))) || break
  done
  mapfile -t -s "$node" -n 1 planned <"$HPCDIST_JOB_DIR/nodes"
  # Slurm's name of a node may differ from its own; horovodrun passes on the first node's SLURMD_NODENAME.
  read -r here </proc/sys/kernel/hostname
  HOSTNAME=$here # a launcher passes on that of the node where it runs
  [[ ${planned[0]} == localhost || ${here%%.*} == "${planned[0]%%.*}" || ${SLURMD_NODENAME:-?} == "${planned[0]}" ]] ||
    hpcdist_fail_task "this is $here, the plan has this rank on ${planned[0]:-no node}; the launcher placed tasks in an order of its own"
  export HPCDIST_RANK=$rank HPCDIST_SIZE=${hpcdist[tasks]} HPCDIST_LOCAL_RANK=$((local_rank + slot)) HPCDIST_LOCAL_SIZE=$local_size
  export HPCDIST_NODE=$node HPCDIST_NODES=${hpcdist[nodes]} HPCDIST_ADDRESS
  hpcdist_set_address "${planned[0]}" HPCDIST_ADDRESS
  # Not 127.0.1.1, to which a node may resolve its own name: on the others it means another machine.
  [[ ! ${hpcdist[by_address]:-} ]] || while read -r here _; do
    [[ $here == 127.* ]] || { HPCDIST_ADDRESS=$here && break; }
  done < <(getent ahostsv4 "$HPCDIST_ADDRESS")
  export HPCDIST_ROLE=$role HPCDIST_INDEX=$((index + offset / per_replica)) HPCDIST_CPUS=$cpus
  [[ ! ${hpcdist[processes]:-} ]] || export HPCDIST_PROCESSES=$processes
  case ${hpcdist[threads]:-} in
  own) export OMP_NUM_THREADS=$cpus ;; # not PBS's, which a daemon that PBS starts on another node passes on
  default) export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cpus} ;;
  esac
  # shellcheck disable=SC2017 # tasks that share a GPU have the same whole number
  hpcdist_take_gpus "$((gpu + slot / per_gpu * gpus))" "$gpus"
}

# Selects this task's GPUs among the job's on this node: by the plan they begin with number $1. HPCDIST_GPUS are their
# numbers among those that the task sees.
hpcdist_take_gpus() {
  local variable=${hpcdist[gpu_variable]:-} visibility=${hpcdist[gpus]:-}
  local gpu=$1 gpus=$2 visible=() row number place shown=0 own=()
  case $visibility in
  '') return ;;
  hidden) # the GPUs of this node, if any, are other jobs'
    export "$variable=${!variable:-}"
    return
    ;;
  esac
  for row in "${hpcdist_tasks[@]}"; do
    # shellcheck disable=SC2086 # these are words
    set -- $row
    ((HPCDIST_NODE < $7 || HPCDIST_NODE >= $7 + $4 / $6 || (shown += $6 * ${12} / ${13}, 1)))
  done
  if [[ -v $variable ]]; then
    IFS=, read -ra visible <<<"${!variable}"
  else
    shopt -s nullglob
    # shellcheck disable=SC2206 # a pattern
    visible=(${hpcdist[gpu_devices]})
    visible=("${!visible[@]}")
    [[ ! ${hpcdist[shared_gpus]:-} ]] || ((gpus == 0 || ${#visible[@]} <= shown)) ||
      hpcdist_fail_task "this job has $shown of the ${#visible[@]} GPUs of this node, and nothing says which: $variable is not set, so another job may be on the same ones; ask for all of them or for whole nodes (batch: {exclusive: true}), or have the site set it for each job${hpcdist[gpu_hook]:+ (${hpcdist[gpu_hook]} does)}"
  fi
  if [[ $visibility == launcher ]]; then
    ((${#visible[@]} >= gpus)) || hpcdist_fail_task "the plan gives this task $gpus GPUs, $variable names ${#visible[@]}"
  else
    ((gpus == 0 || ${#visible[@]} >= gpu + gpus)) ||
      hpcdist_fail_task "the plan gives this task $gpus of this node's GPUs, from number $gpu on; only ${#visible[@]} can be seen here; look at $variable, at nvidia-smi or rocm-smi, and at gpus.request in the site file"
  fi
  case $visibility in
  task) visible=("${visible[@]:gpu:gpus}") ;;
  node) ((gpus)) || visible=() ;;
  esac
  [[ $visibility == node ]] || gpu=0
  for ((number = gpu; number < gpu + gpus; number++)); do own+=("$number"); done
  # Programs use the device whose number is their rank on the node (as far as there are so many): it is one of the task's.
  if [[ $visibility == node ]] && ((gpus)) && ((place = HPCDIST_LOCAL_RANK % shown, place < gpu || place >= gpu + gpus)); then
    number=${visible[place]}
    visible[place]=${visible[gpu]} visible[gpu]=$number own[0]=$place
  fi
  local IFS=,
  export HPCDIST_GPUS="${own[*]}"
  [[ $visibility == launcher ]] || export "$variable=${visible[*]}"
}

# Prints "host:port" of every replica of role $1, separated by commas, in the order of their indexes.
peers() {
  local role=$1 hosts row offset address list=
  mapfile -t hosts <"$HPCDIST_JOB_DIR/nodes"
  for row in "${hpcdist_tasks[@]}"; do
    # shellcheck disable=SC2086 # these are words
    set -- $row
    [[ $1 == "$role" ]] || continue
    for ((offset = 0; offset < $4; offset += $5)); do
      hpcdist_set_address "${hosts[$7 + offset / $6]}" address
      list+=",\"$address:$((HPCDIST_PORT + $8 + offset % $6))\""
    done
  done
  echo "${list#,}"
}

# Sets the number of processes in this task's cgroup that the kernel has killed for lack of memory.
hpcdist_count_oom_kills() {
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
