# --- The job begins

# What this run writes, and a line in its event log at the beginning and at the end.
hpcdist_open_run() {
  local log='' mark=_ trial=$hpcdist_element again=
  [[ ! ${hpcdist[packed]:-} ]] || mark=+ trial='' # 124_2 is a trial then
  export HPCDIST_RUN_DIR=${hpcdist[run_dir]:-$hpcdist_folder}
  export HPCDIST_JOB_ID=$hpcdist_job${hpcdist_element:+$mark$hpcdist_element}
  export HPCDIST_JOB_DIR=$HPCDIST_RUN_DIR/jobs/$HPCDIST_JOB_ID
  export HPCDIST_OUTPUTS=$HPCDIST_RUN_DIR/outputs${trial:+/$trial} HPCDIST_CHECKPOINTS=$HPCDIST_RUN_DIR/checkpoints${trial:+/$trial}
  [[ ${hpcdist[trials]:-} && ! -e $HPCDIST_JOB_DIR ]] || again=1
  [[ ! -e $HPCDIST_RUN_DIR && ! -L $HPCDIST_RUN_DIR ]] || hpcdist_check_own "$HPCDIST_RUN_DIR" # before anything is made there
  (umask 077 && exec mkdir -p "$HPCDIST_JOB_DIR" "$HPCDIST_RUN_DIR/logs" "$HPCDIST_RUN_DIR/python" "$HPCDIST_OUTPUTS" "$HPCDIST_CHECKPOINTS") ||
    hpcdist_fail "cannot write to $HPCDIST_RUN_DIR on $(uname -n); is it on a file system that the nodes share, and not full?"
  hpcdist_check_own "$HPCDIST_RUN_DIR" "$HPCDIST_JOB_DIR"
  [[ ! ${hpcdist[number]:-} || ${hpcdist[packed]:-} ]] || hpcdist_open_trial_log
  [[ ${hpcdist[shell]:-} ]] || hpcdist_call_if_there "output_${hpcdist[scheduler]}"
  if [[ ! ${hpcdist[packed]:-} ]]; then
    hpcdist_open_logs
    hpcdist_announce_attempt
  fi
  # Not every batch system sets the number of restarts; the event log has them. Trials that begin do without: each of many would read all of it.
  [[ ! $again || ! -f $HPCDIST_RUN_DIR/events ]] || IFS= read -r -d '' log <"$HPCDIST_RUN_DIR/events"
  hpcdist_restarts=0
  [[ $'\n'$log != *$'\n'"started $HPCDIST_JOB_ID "* ]] || # not "restarted"
    hpcdist_restarts=$(grep -c "^started ${HPCDIST_JOB_ID//[^A-Za-z0-9_]/.} " "$HPCDIST_RUN_DIR/events")
  hpcdist_read_limits
  hpcdist_log_event started "$hpcdist_restarts" || hpcdist_unwritten
  trap hpcdist_finish EXIT
}
hpcdist_check_own() {
  local folder
  for folder; do
    [[ -O $folder && ! -L $folder ]] ||
      hpcdist_fail "$HPCDIST_RUN_DIR is not your own: another user could change what this job runs; submit it from a folder that only you can write to"
  done
}
# An untrapped signal ends this script with the exit code of an earlier command: 0 is the program's, or unknown. A subshell that
# gets one between its fork and bash's reset of traps comes here as well (bash 5.2, trap_handler and termsig_handler).
hpcdist_finish() {
  local code=$?
  [[ $BASHPID == "$$" ]] || return 0
  ((code != 0)) || code=${hpcdist_status:-unknown}
  [[ ${hpcdist_end:-} != requeued ]] || code=${hpcdist_status:-$code} # the batch system's TERM at this moment may change it
  [[ ! ${hpcdist_clock:-} ]] || kill "$hpcdist_clock" 2>/dev/null
  # Many programs end with 0 when they get TERM: where the job was cancelled, that is not known as the end of its training.
  [[ $code != 0 || ! ${hpcdist_told_to_end:-} ]] || hpcdist_log_event terminated 0
  hpcdist_log_event "${hpcdist_end:-ended}" "$code" || echo "hpcdist: the end (exit code $code) cannot be written to $HPCDIST_RUN_DIR/events; is the disk full?" >&2
  [[ ! ${hpcdist_abandoned:-} ]] || hpcdist_call_if_there "cancel_${hpcdist[scheduler]}" "$HPCDIST_JOB_ID"
  [[ $code != unknown ]] || hpcdist_fail "this script ended before its program had run; does a line of setup exit?"
}

# Signals go to the program; its exit code becomes the job's. (Background programs ignore INT: they get TERM.) Some batch
# systems send ALRM, XCPU or XFSZ at a limit. Before the program runs, all but USR1 and USR2 end the job.
hpcdist_trap_signals() {
  trap 'hpcdist_forward TERM' TERM INT QUIT ALRM XCPU XFSZ
  trap 'hpcdist_forward HUP' HUP
  trap 'hpcdist_forward USR1' USR1
  trap 'hpcdist_forward USR2' USR2
  trap 'hpcdist_end_in_time' URG
}
hpcdist_forward() {
  [[ $1 != TERM && $1 != HUP ]] || hpcdist_told_to_end=1
  if [[ $1 == TERM && ${hpcdist_program:-none} != none ]] && hpcdist_starts_by_srun; then
    hpcdist_signal=TERM
    # Where Slurm ends the job, it signals the tasks itself.
    [[ $(trap '' TERM && ending_slurm) ]] || hpcdist_notify TERM
  else
    hpcdist_send "$1"
  fi
  [[ $1 != TERM ]] || hpcdist_meet_limit
}
hpcdist_send() {
  hpcdist_signal=$1
  if [[ ! ${hpcdist_program:-} ]]; then
    [[ $1 == USR[12] ]] || exit $((128 + $(kill -l "$1")))
  elif [[ ${hpcdist[mode]} == once ]]; then
    kill -s "$1" -- "-$hpcdist_program" 2>/dev/null
  elif [[ ${hpcdist[launcher]} == horovodrun?(-elastic) ]]; then
    hpcdist_signal_by_ssh "$1"
    # An elastic one would start others in their place.
    [[ $1 != TERM || ! ${hpcdist[elastic]:-} ]] || kill -s TERM "$hpcdist_program" 2>/dev/null
  else
    kill -s "$1" "$hpcdist_program" 2>/dev/null
  fi
}

# The nodes are numbered from 0 as the plan numbers them.
hpcdist_check_nodes() {
  local nodes=${#hpcdist_nodes[@]} own=${hpcdist[own_nodes]:-0} more='' to=1 IFS=,
  ((nodes == hpcdist[nodes] + own)) || hpcdist_fail "the allocation has $nodes nodes, the plan needs $((hpcdist[nodes] + own))"
  hpcdist_own_nodes=("${hpcdist_nodes[@]:nodes-own}") # of programs beside the tasks
  hpcdist_nodes=("${hpcdist_nodes[@]:0:nodes-own}")
  ((own == 0)) || export HPCDIST_TASK_NODES="${hpcdist_nodes[*]}"
  if [[ ${hpcdist[beside]:-} ]]; then
    hpcdist_set_address "${hpcdist_own_nodes[0]:-${hpcdist_nodes[-1]}}" HPCDIST_BESIDE_NODE
    export HPCDIST_BESIDE_NODE
  fi
  IFS=' '
  ((nodes <= 8)) || more=' ...'
  [[ ! ${hpcdist[shell]:-} ]] || to=2 # what a command prints is its user's
  echo "hpcdist: ${hpcdist[job]}: ${hpcdist_nodes[*]:0:8}$more${hpcdist_trial_params:+:$hpcdist_trial_params} (job $HPCDIST_JOB_ID)" >&"$to"
}

# The address by which the other tasks reach the first node, and the job's ports: below Linux's ephemeral ones, and
# different for the elements of an array, which may share a node.
hpcdist_choose_address() {
  local name ports=${hpcdist[ports]}
  hpcdist_set_address "${hpcdist_nodes[0]}" HPCDIST_HEAD_ADDRESS
  if [[ $hpcdist_address ]]; then
    HPCDIST_HEAD_ADDRESS=$hpcdist_address # the batch system's
  elif [[ ${hpcdist[by_address]:-} ]]; then
    # A node may resolve its own name to 127.0.1.1, which means another machine on the others.
    name=$HPCDIST_HEAD_ADDRESS
    while read -r HPCDIST_HEAD_ADDRESS _; do [[ $HPCDIST_HEAD_ADDRESS == 127.* ]] || break; done < <(getent ahostsv4 "$name")
    [[ ${HPCDIST_HEAD_ADDRESS:-127.} != 127.* ]] || hpcdist_fail "$name has no address that other nodes could reach"
  fi
  HPCDIST_PORT=$((20000 + (hpcdist_number + 37 * ${hpcdist_element:-0}) % (12000 / ports) * ports))
  export HPCDIST_HEAD_ADDRESS HPCDIST_PORT
}
# Sets variable $2 to the name by which other nodes reach host $1.
hpcdist_set_address() {
  local host=$1
  [[ ! ${hpcdist[suffix]:-} ]] || host=${host%%.*}${hpcdist[suffix]}
  printf -v "$2" %s "$host"
}
