# --- The program runs

hpcdist_start() {
  environment
  [[ ! ${hpcdist[trials]:-} ]] || hpcdist_export_trial
  hpcdist_add_modules
  hpcdist_set_polyaxon 0
  hpcdist_call_if_there "prepare_${hpcdist[launcher]}"
  [[ ! ${hpcdist[program]:-} ]] || type "${hpcdist[program]}" >/dev/null 2>&1 ||
    hpcdist_fail "there is no ${hpcdist[program]} on $(uname -n); load its module in the site file, or choose another batch.launcher"
  launch
}
hpcdist_run() {
  hpcdist_code=127 hpcdist_server_end="" hpcdist_lost=() # not local: the program may have a variable of such a name
  # A name that no node has looked up before: network file systems cache that a file is missing.
  export HPCDIST_FAILURE="$HPCDIST_JOB_DIR/failure.$hpcdist_restarts.$1"
  export HPCDIST_TRACKING="$HPCDIST_RUN_DIR/tracking/$HPCDIST_JOB_ID/$hpcdist_restarts.$1"
  if [[ ${hpcdist[required_roles]:-}${hpcdist[elastic]:-} ]]; then
    export HPCDIST_ENDED="$HPCDIST_JOB_DIR/ended.$hpcdist_restarts.$1"
    mkdir -p "$HPCDIST_ENDED" || hpcdist_unwritten
  fi
  hpcdist_program=none
  [[ ${hpcdist[mode]} != once ]] || set -m # its own process group, all of which gets signals
  hpcdist_start &
  set +m
  hpcdist_program=$!
  [[ ${hpcdist[mode]} != once || ${hpcdist[launch_node]:-} ]] || hpcdist_begin_gpu_usage $$ # on the first node alone
  [[ ! ${hpcdist[rehearsal]:-} ]] || hpcdist_begin_rehearsal
  [[ -z ${hpcdist_told_to_end:-} ]] || hpcdist_send TERM # a signal that came before the program started
  if [[ ${hpcdist[required_roles]:-} ]]; then
    hpcdist_end_servers 2>/dev/null &
    hpcdist_server_end=$!
  fi
  hpcdist_wait_for_program
  hpcdist_end_gpu_usage
  # Launchers have their own exit codes for tasks that a signal ended (mpirun 1 or 255).
  ((hpcdist_code == 0 || (hpcdist_code > 128 && hpcdist_code < 255))) || [[ -z ${hpcdist_told_to_end:-} ]] || hpcdist_code=143
  if [[ $hpcdist_server_end ]]; then
    kill "$hpcdist_server_end" 2>/dev/null
    [[ ! -e $HPCDIST_ENDED.well ]] || hpcdist_code=0
  elif [[ ${hpcdist[elastic]:-} && $hpcdist_code != 0 && -e $HPCDIST_ENDED/well && ! -e $HPCDIST_FAILURE ]]; then
    echo "hpcdist: the training had ended well when a node was lost"
    hpcdist_code=0
  fi
  if [[ $hpcdist_code != 0 && -s $HPCDIST_FAILURE.pruned ]]; then
    echo "hpcdist: this trial has ended early, by $(<"$HPCDIST_FAILURE.pruned")"
    hpcdist_log_event pruned "$hpcdist_code"
    hpcdist_code=0
  elif [[ ${hpcdist[mode]} == tasks || ${hpcdist[elastic]:-} ]]; then
    hpcdist_find_cause
  fi
  [[ ! ${hpcdist[packed]:-} ]] || hpcdist_end_packed
  [[ $hpcdist_code == 0 || ! ${hpcdist[restart]:-} ]] || hpcdist_end_leftovers
  return "$hpcdist_code"
}
# A launcher that was killed leaves its tasks behind, which would write the checkpoints of the next attempt. Those on other
# nodes are not seen from here.
hpcdist_end_leftovers() {
  local pids
  pids=$(grep -lszxF -e "HPCDIST_FAILURE=$HPCDIST_FAILURE" /proc/[0-9]*/environ | cut -d/ -f3)
  # shellcheck disable=SC2086 # these are words
  [[ ! $pids ]] || kill -KILL $pids 2>/dev/null
  return 0
}
hpcdist_wait_for_program() {
  local code
  while :; do
    hpcdist_signal=
    wait "$hpcdist_program"
    code=$?
    # 127: it was gone before this wait, and an earlier one returned its exit code.
    ((code == 127 && hpcdist_code != 127)) || hpcdist_code=$code
    [[ $hpcdist_signal ]] || return 0
    ! hpcdist_is_forgotten "$hpcdist_program" || break
  done
  hpcdist_code=1
}
# Whether child $1 has ended, and bash takes it for one that runs: bash 5.2 loses its exit code where a trapped signal comes while
# `wait` takes it, and `wait` would then last for ever.
hpcdist_is_forgotten() {
  local stat=
  read -r stat 2>/dev/null <"/proc/$1/stat"
  [[ ${stat##*) } != ?" $BASHPID "* && $'\n'$(jobs -rp)$'\n' == *$'\n'"$1"$'\n'* ]] || return
  echo "hpcdist: process $1 ended at the moment of a signal, and bash lost its exit code: whether it ended well is unknown" >&2
  disown "$1"
}
# The task that failed first is the cause, and its exit code is the job's: a launcher may return that of a task
# it killed, or none. Tasks that TERM ended are the cause only if the job got it, or if no launcher has told of a failure.
hpcdist_find_cause() {
  local rank host text code failure=$HPCDIST_FAILURE
  [[ -e $failure || ($hpcdist_code != 0 && -z ${hpcdist_told_to_end:-}${hpcdist_at_limit:-}) ]] || failure+=.TERM
  [[ ! ${hpcdist[elastic]:-} ]] || hpcdist_find_lost
  if ((${#hpcdist_lost[@]})); then
    echo "hpcdist: $(uname -n) cannot reach ${hpcdist_lost[*]} by ssh, by which horovodrun starts ranks there; let \`ssh NODE true\` work without a password, if the nodes are not down" >&2
  elif hpcdist_can_have_failed && read -r code rank host text 2>/dev/null <"$failure"; then
    hpcdist_code=$code
    case ${text:+told}$hpcdist_code in
    told*) echo "hpcdist: rank $rank on $host: $text" >&2 ;;
    129 | 1[3-9][0-9])
      [[ $hpcdist_code == 143 && ${hpcdist_told_to_end:-} ]] ||
        echo "hpcdist: rank $rank on $host was the first to end, killed by signal $(kill -l "$hpcdist_code")" >&2
      ;;
    *) echo "hpcdist: rank $rank on $host was the first to fail, with exit code $hpcdist_code" >&2 ;;
    esac
  elif ((hpcdist_code == 186)); then
    hpcdist_code=86 # that of the words which start the wrapper; a launcher may return the highest of all tasks
  elif ((hpcdist_code != 0 && hpcdist_code != 86)) && [[ -z ${hpcdist_told_to_end:-}${hpcdist_at_limit:-} ]]; then
    echo "hpcdist: ${hpcdist[launcher]} ended with exit code $hpcdist_code, and no task recorded why: a node or a task was lost, or killed; its own messages are above" >&2
    ((hpcdist[nodes] == 1)) || hpcdist_call_if_there "lost_${hpcdist[scheduler]}"
  fi
}
hpcdist_can_have_failed() {
  if [[ ${hpcdist[elastic]:-} ]]; then ((hpcdist_code != 0)); else [[ ! ${hpcdist[required_roles]:-} || ! -e $HPCDIST_ENDED.well ]]; fi
}

# Every task of the required roles leaves a file when it ends well. The others serve them and
# never end by themselves: they are ended a moment later.
hpcdist_end_servers() {
  until hpcdist_all_ended; do sleep 1 >/dev/null; done
  [[ ! -e $HPCDIST_FAILURE ]] || return
  : >"$HPCDIST_ENDED.well" # if it cannot be written, the job still ends, as failed
  sleep 2
  kill -TERM "$hpcdist_program" || return
  echo "hpcdist: ${hpcdist[required_roles]// / and } ended well; ending those that served"
  for _ in {1..10}; do sleep 1 >/dev/null; done
  kill -KILL "$hpcdist_program"
}
hpcdist_all_ended() {
  local ended=("$HPCDIST_ENDED"/*)
  [[ -e ${ended[0]} ]] && ((${#ended[@]} >= hpcdist[required_tasks]))
}

