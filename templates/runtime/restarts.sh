# --- Attempts: each run of the program, in whichever start and job, and what follows it

# Runs the program, and again after a failure up to the experiment's max_restarts; but not after a finished program, one
# that a signal ended, or a launch that cannot work.
hpcdist_run_all() {
  [[ ! ${hpcdist[shell]:-} ]] || { hpcdist_run_shell; return; }
  hpcdist_try=0
  [[ ! ${hpcdist[restart]:-} || ${hpcdist[rehearsal]:-} ]] || hpcdist_watch_time
  while :; do
    hpcdist_begin_attempt
    ((hpcdist_try == 0)) || [[ ! ${hpcdist[spare]:-} ]] || hpcdist_write_files
    hpcdist_run "$hpcdist_try"
    hpcdist_status=$?
    hpcdist_program=none
    if [[ ${hpcdist[rehearsal]:-} ]]; then
      hpcdist_rehearse_next || break
    elif [[ ${hpcdist[packed]:-} ]]; then
      hpcdist_choose_next_of_packed
      break # each trial is run again by itself
    elif [[ ${hpcdist[restart]:-} ]]; then
      hpcdist_choose_next || break
    else
      ((hpcdist_status == 0 || hpcdist_status == 86 || hpcdist_status > 127 || hpcdist_try >= ${hpcdist[max_restarts]:-0})) && break
      [[ -z ${hpcdist_told_to_end:-} ]] || break
    fi
    hpcdist_log_event restarted "$hpcdist_status"
    hpcdist_try=$((hpcdist_try + 1))
    echo "hpcdist: exit code $hpcdist_status; restart $((${HPCDIST_ATTEMPT:-hpcdist_try - 1} - ${hpcdist_first:-0} + 1)) of ${hpcdist[max_restarts]}" >&2
  done
}
# attempts/N is written when attempt N begins: its job, start and try, and the job's id as the batch system knows it. At its end
# follow N.why, N.steps with the highest step of each tracked metric so far, and N.idle with how many in a row, N the last, left
# nothing new; when the next one begins N.saved, when the checkpoints changed last. attempts/over has the exit code of the last
# one, and why there is no other. first: that since `hpcdist resume`.
hpcdist_begin_attempt() {
  local line
  [[ ! ${hpcdist[packed]:-} ]] || return 0
  ((hpcdist_try == 0)) || hpcdist_announce_attempt
  hpcdist_count_attempts
  (umask 077 && exec mkdir -p "$hpcdist_attempts") || hpcdist_unwritten
  [[ ! ${hpcdist[restart]:-} ]] || hpcdist_reserve_end
  line="$HPCDIST_JOB_ID $hpcdist_restarts.$hpcdist_try $(hpcdist_call_if_there "id_${hpcdist[scheduler]}")"
  until hpcdist_claim_attempt "$line"; do # another job of the run has begun it at this moment
    [[ ! ${hpcdist[restart]:-} ]] || hpcdist_check_owner
    HPCDIST_ATTEMPT=$((HPCDIST_ATTEMPT + 1))
  done
  ((HPCDIST_ATTEMPT == 0)) || hpcdist_record_saved
  HPCDIST_RESUMED=$((HPCDIST_ATTEMPT > 0))
  [[ ! -e $HPCDIST_RUN_DIR/copied ]] || HPCDIST_RESUMED=1 # it begins with the checkpoints of another run
  export HPCDIST_ATTEMPT HPCDIST_RESUMED
}
# Writes line $1 as the beginning of the attempt, unless another job has: its file may be empty yet. An attempt that cannot be
# recorded does not begin.
hpcdist_claim_attempt() {
  local code=0 file=$hpcdist_attempts/$HPCDIST_ATTEMPT
  (set -C && { echo "$1" || exit 3; } >"$file") 2>/dev/null || code=$?
  ((code != 3)) || rm -f "$file"
  [[ -e $file ]] || hpcdist_unwritten
  return "$code"
}
# Sets the folder of the attempts, the number of the next one, and that of the first one since the run was resumed.
hpcdist_count_attempts() {
  hpcdist_attempts=$HPCDIST_RUN_DIR/attempts${hpcdist_element:+/$hpcdist_element} HPCDIST_ATTEMPT=0 hpcdist_first=0
  while [[ -e $hpcdist_attempts/$HPCDIST_ATTEMPT ]]; do HPCDIST_ATTEMPT=$((HPCDIST_ATTEMPT + 1)); done
  [[ ! -e $hpcdist_attempts/first ]] || read -r hpcdist_first <"$hpcdist_attempts/first"
}
# The line that ends the run gets its place on the disk now: the disk may be full by then.
hpcdist_reserve_end() { [[ -s $hpcdist_attempts/end ]] || printf '%-512s' '' >"$hpcdist_attempts/end" || hpcdist_unwritten; }
# Writes when a file of the checkpoints was changed last: how much the attempt before this one lost.
hpcdist_record_saved() {
  find "$HPCDIST_CHECKPOINTS" -type f -printf '%T@\n' 2>/dev/null | sort -n | tail -n 1 >"$hpcdist_attempts/$((HPCDIST_ATTEMPT - 1)).saved"
}
# Whether the job may begin an attempt: an earlier one may have been the last, or have been killed before it could say so.
hpcdist_may_begin() {
  local why job
  hpcdist_count_attempts
  if read -r hpcdist_status why 2>/dev/null <"$hpcdist_attempts/over"; then
    echo "hpcdist: nothing is left to do: the last attempt was over ($why)"
    read -r job _ <"$hpcdist_attempts/$((HPCDIST_ATTEMPT - 1))"
    grep -qs "^over $job " "$HPCDIST_RUN_DIR/events" || HPCDIST_JOB_ID=$job hpcdist_log_over "$why" # its script was killed first
    hpcdist_log_event skipped 0
  elif [[ -e $HPCDIST_RUN_DIR/cancelled ]]; then # when `hpcdist cancel` did not know of this job yet
    hpcdist_status=143
    echo "hpcdist: the run was cancelled, so that no attempt begins"
    hpcdist_log_event cancelled 0
  else
    ((HPCDIST_ATTEMPT > 0)) || return 0
    HPCDIST_ATTEMPT=$((HPCDIST_ATTEMPT - 1)) hpcdist_status=86 hpcdist_why=lost
    ! grep -qsx timeout "$hpcdist_attempts/$HPCDIST_ATTEMPT.why" || hpcdist_why=timeout # by which it was put into the queue
    hpcdist_blame_earlier
    hpcdist_check_owner
    ((HPCDIST_ATTEMPT < hpcdist_first)) || ! { hpcdist_was_enough || hpcdist_is_last; }
    return
  fi
  hpcdist_over=1
  return 1
}
# Whether the batch system ended the last attempt for a reason after which there is to be no other: it may start jobs again
# by itself, and followers begin after any end.
hpcdist_was_enough() {
  local why
  read -r why 2>/dev/null <"$hpcdist_attempts/$HPCDIST_ATTEMPT.why"
  [[ ${why:-terminated} == terminated && " ${hpcdist[restart_on]} " != *" preempt "* && " ${hpcdist[restart_on]} " != *" node_failure "* ]] || return
  [[ ${hpcdist[restart]} != follow || " ${hpcdist[restart_on]} " != *" timeout "* ]] || return
  hpcdist_say_over "it was ended from outside; only after ${hpcdist[restart_on]// / and } there is another attempt"
}
# After an attempt: returns 0 for another one here; else the job ends, or asks for other nodes.
hpcdist_choose_next() {
  hpcdist_doubt_success
  hpcdist_find_why
  echo "$hpcdist_why" >"$hpcdist_attempts/$HPCDIST_ATTEMPT.why"
  if ((hpcdist_status == 0)); then
    [[ ! ${hpcdist_at_limit:-} ]] || echo "hpcdist: the program ended with exit code 0 after ${hpcdist[notice]#* }, and so is finished; if it is not, let it end with another one"
    hpcdist_say_over completed
  elif [[ $hpcdist_why == terminated ]]; then
    : # by its user, or by a batch system that does not say why
  elif [[ " ${hpcdist[restart_on]} " != *" $hpcdist_why "* ]]; then
    hpcdist_say_over "$hpcdist_why"
  elif [[ $hpcdist_why != failure && ${hpcdist[restart]} == here ]]; then
    hpcdist_say_over "$hpcdist_why; this job gets no other nodes"
  elif ! hpcdist_is_last; then
    hpcdist_blame
    if [[ $hpcdist_why == *failure && ${hpcdist[spare]:-} ]]; then
      hpcdist_choose_nodes || hpcdist_why=node_failure
    elif [[ $hpcdist_why == failure && ${hpcdist[restart]} == requeue ]] && hpcdist_has_bad_node; then
      hpcdist_why=node_failure
    fi
    [[ $hpcdist_why != failure ]] || return 0
    [[ ${hpcdist_end:-} == requeued ]] || hpcdist_log_event again "$hpcdist_why"
    if [[ ${hpcdist[restart]} == requeue ]]; then hpcdist_again=1; else hpcdist_exclude_from_followers; fi
  fi
  return 1
}
# Where trials are left that may have other nodes or more time, this job goes into the queue again. What its workers had claimed,
# and could not return, its next start returns.
hpcdist_choose_next_of_packed() {
  [[ ${hpcdist[restart]:-} == requeue ]] && ! hpcdist_is_stopped && hpcdist_has_left_trials || return 0
  hpcdist_find_why
  [[ $hpcdist_why != failure && " ${hpcdist[restart_on]} " == *" $hpcdist_why "* ]] || return 0
  if ((hpcdist_restarts >= ${hpcdist[max_restarts]:-0})); then
    echo "hpcdist: $hpcdist_why; no more than ${hpcdist[max_restarts]:-0} restarts: \`hpcdist sweep resume\` runs what is left" >&2
    return
  fi
  hpcdist_log_event again "$hpcdist_why"
  hpcdist_again=1
}
hpcdist_has_left_trials() { (hpcdist_has_trials) || hpcdist_lost_claims | grep -q "^${HPCDIST_JOB_ID//+/[+]} "; }
# Many programs end with exit code 0 when they get TERM or HUP: whether they had finished is unknown.
hpcdist_doubt_success() {
  ((hpcdist_status == 0)) && [[ ${hpcdist_told_to_end:-}${hpcdist_got_term:-} ]] || return 0
  echo "hpcdist: the program ended with exit code 0 when it was told to end; whether it had finished is unknown"
  hpcdist_status=143
}
# All processes may get TERM at this moment, also the one that finds out, before it can ignore it.
hpcdist_find_why() {
  local try
  for try in {1..5}; do
    hpcdist_why=$(trap '' TERM && hpcdist_cause)
    [[ ! $hpcdist_why ]] || return 0
  done
  hpcdist_why=terminated
}
hpcdist_cause() {
  local why
  if ((hpcdist_status != 0)) && why=$(hpcdist_call_if_there "ending_${hpcdist[scheduler]}") && [[ $why ]]; then
    echo "$why"
  elif [[ ${hpcdist_told_to_end:-} ]]; then
    echo terminated # by its user, or by a batch system that does not say why
  elif [[ ${hpcdist_at_limit:-} ]]; then
    echo timeout
  elif ((hpcdist_status == 86)); then
    echo launch
  elif ((${#hpcdist_lost[@]})); then
    echo node_failure
  elif [[ ${hpcdist[mode]} == tasks && ! -s $HPCDIST_FAILURE && $hpcdist_status != 0 ]] && ((hpcdist[nodes] > 1)); then
    echo node_failure # no task recorded why
  else
    echo failure
  fi
}
# Whether no attempt may follow this one, and why.
hpcdist_is_last() {
  local code
  hpcdist_count_idle
  for code in ${hpcdist[stop_on_exit]:-}; do
    ((code != hpcdist_status)) || { hpcdist_say_over "exit code $code"; return 0; }
  done
  if [[ ${hpcdist[stop_file]:-} && -e ${hpcdist[stop_file]} ]]; then
    hpcdist_say_over "there is ${hpcdist[stop_file]}"
  elif ((HPCDIST_ATTEMPT - hpcdist_first >= ${hpcdist[max_restarts]:-0})); then
    hpcdist_say_over "$hpcdist_why; no more than ${hpcdist[max_restarts]:-0} restarts"
  elif ((hpcdist[no_progress] && hpcdist_idle >= hpcdist[no_progress])); then
    hpcdist_say_over "$hpcdist_why; $hpcdist_idle attempts in a row $(hpcdist_what_lacks)"
  else
    return 1
  fi
}
hpcdist_say_over() {
  hpcdist_over=1
  [[ ${1%%[;:]*} != timeout ]] || hpcdist_log_event timeout 0
  { printf '%-511.511s\n' "$hpcdist_status ${1//[[:cntrl:]]/?}" 1<>"$hpcdist_attempts/end" && mv -f "$hpcdist_attempts/end" "$hpcdist_attempts/over"; } ||
    echo "hpcdist: cannot write $hpcdist_attempts/over; is the disk full?" >&2
  hpcdist_log_over "$1"
  ((hpcdist_status == 0)) || echo "hpcdist: there is no further attempt: $1" >&2
}
hpcdist_log_over() { set -- "${1%%[;:]*}" && hpcdist_log_event over "${1//[^[:graph:]]/_}"; }
