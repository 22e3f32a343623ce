# --- Attempts: each run of the program, in whichever start and job, and what follows it

# Runs the program, and again after a failure up to the experiment's max_restarts; but not after a finished program, one
# that a signal ended, or a launch that cannot work.
hpcdist_run_all() {
  hpcdist_try=0
  [[ ! ${hpcdist[restart]:-} ]] || hpcdist_watch_time
  while :; do
    hpcdist_begin_attempt
    ((hpcdist_try == 0)) || [[ ! ${hpcdist[spare]:-} ]] || hpcdist_write_files
    hpcdist_run "$hpcdist_try"
    hpcdist_status=$?
    hpcdist_program=none
    if [[ ${hpcdist[restart]:-} ]]; then
      hpcdist_choose_next || break
    else
      ((hpcdist_status == 0 || hpcdist_status == 86 || hpcdist_status > 127 || hpcdist_try >= ${hpcdist[max_restarts]:-0})) && break
      [[ -z ${hpcdist_told_to_end:-}${hpcdist[packed]:-} ]] || break # of packed trials each is run again by itself
    fi
    hpcdist_log_event restarted "$hpcdist_status"
    hpcdist_try=$((hpcdist_try + 1))
    echo "hpcdist: exit code $hpcdist_status; restart $((${HPCDIST_ATTEMPT:-hpcdist_try - 1} + 1)) of ${hpcdist[max_restarts]}" >&2
  done
}
# attempts/N is written when attempt N begins: its job, start and try; attempts/N.idle has how many in a row, N the last, left
# nothing new; attempts/over why there is none after the last, and its exit code.
hpcdist_begin_attempt() {
  [[ ! ${hpcdist[packed]:-} ]] || return 0
  ((hpcdist_try == 0)) || hpcdist_announce_attempt
  hpcdist_count_attempts
  (umask 077 && exec mkdir -p "$hpcdist_attempts") || hpcdist_unwritten
  echo "$HPCDIST_JOB_ID $hpcdist_restarts.$hpcdist_try" >"$hpcdist_attempts/$HPCDIST_ATTEMPT" || { rm -f "$hpcdist_attempts/$HPCDIST_ATTEMPT"; hpcdist_unwritten; } # it does not begin
  HPCDIST_RESUMED=$((HPCDIST_ATTEMPT > 0))
  export HPCDIST_ATTEMPT HPCDIST_RESUMED
}
# Whether the job may begin an attempt: an earlier one may have been the last, or have been killed before it could say so.
hpcdist_may_begin() {
  local folder=$HPCDIST_RUN_DIR/attempts${hpcdist_element:+/$hpcdist_element} last=0 why owner
  if read -r hpcdist_status why 2>/dev/null <"$folder/over"; then
    echo "hpcdist: nothing is left to do: the last attempt was over ($why)"
    hpcdist_log_event skipped 0
    return 1
  fi
  [[ -e $folder/0 ]] || return 0
  while [[ -e $folder/$((last + 1)) ]]; do last=$((last + 1)); done
  read -r owner _ <"$folder/$last"
  hpcdist_check_owner "$owner"
  hpcdist_attempts=$folder HPCDIST_ATTEMPT=$last hpcdist_status=86 hpcdist_why=lost
  ((last < $(hpcdist_first))) || ! { hpcdist_was_enough || hpcdist_is_last; }
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
# Prints the number of the first attempt, or of the first one since the run was resumed.
hpcdist_first() { cat "$hpcdist_attempts/first" 2>/dev/null || echo 0; }
# After an attempt: returns 0 for another one here; else the job ends, or asks for other nodes.
hpcdist_choose_next() {
  hpcdist_why=$(trap '' TERM && hpcdist_cause) # all processes may get it at this moment
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
    hpcdist_log_event again "$hpcdist_why"
    [[ ${hpcdist[restart]} != requeue ]] || hpcdist_again=1
  fi
  return 1
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
  elif ((HPCDIST_ATTEMPT - $(hpcdist_first) >= hpcdist[max_restarts])); then
    hpcdist_say_over "$hpcdist_why; no more than ${hpcdist[max_restarts]} restarts"
  elif ((hpcdist[no_progress] && hpcdist_idle >= hpcdist[no_progress])); then
    hpcdist_say_over "$hpcdist_why; $hpcdist_idle attempts in a row left nothing new in $HPCDIST_CHECKPOINTS or $HPCDIST_OUTPUTS"
  else
    return 1
  fi
}
hpcdist_count_idle() {
  local file=$hpcdist_attempts/$HPCDIST_ATTEMPT before=0
  ((HPCDIST_ATTEMPT == $(hpcdist_first))) || read -r before 2>/dev/null <"$hpcdist_attempts/$((HPCDIST_ATTEMPT - 1)).idle"
  hpcdist_idle=0
  [[ $(find "$HPCDIST_CHECKPOINTS" "$HPCDIST_OUTPUTS" -type f -newer "$file" -print -quit) ]] || hpcdist_idle=$((before + 1))
  echo "$hpcdist_idle" >"$file.idle"
}
hpcdist_say_over() {
  local why=${1%%[;:]*}
  [[ $why != timeout ]] || hpcdist_log_event timeout 0
  echo "$hpcdist_status $1" >"$hpcdist_attempts/over" || echo "hpcdist: cannot write $hpcdist_attempts/over; is the disk full?" >&2
  hpcdist_log_event over "${why// /_}"
  ((hpcdist_status == 0)) || echo "hpcdist: there is no further attempt: $1" >&2
  [[ ${hpcdist[restart]} != follow ]] || hpcdist_cancel_followers
}
