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

# attempts/N is written when attempt N begins; attempts/N.idle has how many in a row, N the last, left nothing new; attempts/over
# why there is none after the last, and its exit code.
hpcdist_begin_attempt() {
  [[ ! ${hpcdist[packed]:-} ]] || return 0
  hpcdist_attempts=$HPCDIST_RUN_DIR/attempts${hpcdist_element:+/$hpcdist_element}
  (umask 077 && exec mkdir -p "$hpcdist_attempts") || hpcdist_unwritten
  HPCDIST_ATTEMPT=0
  while [[ -e $hpcdist_attempts/$HPCDIST_ATTEMPT ]]; do HPCDIST_ATTEMPT=$((HPCDIST_ATTEMPT + 1)); done
  echo "$HPCDIST_JOB_ID" >"$hpcdist_attempts/$HPCDIST_ATTEMPT" || { rm -f "$hpcdist_attempts/$HPCDIST_ATTEMPT"; hpcdist_unwritten; } # it does not begin
  HPCDIST_RESUMED=$((HPCDIST_ATTEMPT > 0))
  export HPCDIST_ATTEMPT HPCDIST_RESUMED
}
# Whether the job may begin an attempt: an earlier one may have been the last, or have been killed before it could say so.
hpcdist_may_begin() {
  local folder=$HPCDIST_RUN_DIR/attempts${hpcdist_element:+/$hpcdist_element} last=0 why
  if read -r hpcdist_status why 2>/dev/null <"$folder/over"; then
    echo "hpcdist: nothing is left to do: the last attempt was over ($why)"
    hpcdist_log_event skipped 0
    return 1
  fi
  [[ -e $folder/0 ]] || return 0
  while [[ -e $folder/$((last + 1)) ]]; do last=$((last + 1)); done
  hpcdist_check_owner "$(<"$folder/$last")"
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
# Two attempts at once would write the same checkpoints: the job of the last one must be gone, by the batch system's word.
hpcdist_check_owner() {
  local try
  [[ $1 && $1 != "$HPCDIST_JOB_ID" ]] && declare -F "lives_${hpcdist[scheduler]}" >/dev/null || return 0
  for ((try = 0; try < 24; try++)); do # it may be ending
    "lives_${hpcdist[scheduler]}" "$1" || return 0
    sleep 5
  done
  hpcdist_fail "job $1 of this run is alive, and would write the same checkpoints; cancel it, then submit this one again"
}

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
# Records the nodes that were lost, or the one of several with the first task to fail.
hpcdist_blame() {
  local node
  if [[ $hpcdist_why == node_failure ]]; then
    for node in $(hpcdist_call_if_there "down_${hpcdist[scheduler]}"); do hpcdist_log_event lost "$node"; done
  elif ((hpcdist[nodes] > 1)) && [[ $hpcdist_why == failure ]] && read -r _ _ node _ 2>/dev/null <"$HPCDIST_FAILURE"; then
    hpcdist_log_event blamed "${node%%.*}"
  fi
}
# Prints at most eight nodes that were lost, or blamed twice.
hpcdist_bad_nodes() {
  [[ ${hpcdist[keep_nodes]:-} ]] || awk '($1 == "lost" && !bad[$4]++) || ($1 == "blamed" && ++blamed[$4] == 2 && !bad[$4]++) { print $4 }' \
    "$HPCDIST_RUN_DIR/events" | head -n 8
}
hpcdist_has_bad_node() {
  local node bad
  bad=$'\n'$(hpcdist_bad_nodes)$'\n'
  for node in "${hpcdist_nodes[@]}"; do [[ $bad != *$'\n'"${node%%.*}"$'\n'* ]] || return 0; done
  return 1
}
# Gives the next attempt nodes of this job that are alive, without bad ones if there are enough. Returns 1 if there are not.
hpcdist_choose_nodes() {
  local node alive bad good=() rest=() IFS=$' \n'
  alive=$'\n'$("live_nodes_${hpcdist[scheduler]}" 60)$'\n'
  bad=$'\n'$(hpcdist_bad_nodes)$'\n'
  for node in "${hpcdist_nodes[@]}" "${hpcdist_own_nodes[@]}"; do
    [[ $alive == *$'\n'"$node"$'\n'* ]] || continue
    if [[ $bad == *$'\n'"${node%%.*}"$'\n'* ]]; then rest+=("$node"); else good+=("$node"); fi
  done
  good+=("${rest[@]}")
  ((${#good[@]} >= hpcdist[nodes])) || return 1
  hpcdist_why=failure
  hpcdist_nodes=("${good[@]:0:hpcdist[nodes]}") hpcdist_own_nodes=("${good[@]:hpcdist[nodes]}") IFS=,
  export HPCDIST_TASK_NODES="${hpcdist_nodes[*]}"
  IFS=$' \t\n'
  hpcdist_choose_address
}
# Puts this job into the queue again; the batch system then ends this script. It may be down at this very moment.
hpcdist_requeue() {
  local try bad
  bad=$(hpcdist_bad_nodes)
  for ((try = 0; try < 20; try++)); do
    [[ ! ${hpcdist_told_to_end:-} || $hpcdist_why == preempt ]] || return # it was cancelled meanwhile
    if "requeue_${hpcdist[scheduler]}"; then
      [[ ! $bad ]] || hpcdist_call_if_there "exclude_${hpcdist[scheduler]}" "${bad//$'\n'/,}"
      hpcdist_end=requeued
      echo "hpcdist: $hpcdist_why: this job is in the queue again"
      return
    fi
    sleep 5
  done
  echo "hpcdist: $hpcdist_why: the batch system does not put this job into the queue again" >&2
}
# The followers were submitted with this job: each waits for the end of the one before, and finds that nothing is left to do.
hpcdist_cancel_followers() {
  local file id
  for file in "$HPCDIST_RUN_DIR"/record.*.json; do
    id=$(sed -n 's/^ *"job_id": "\([^"]*\)",*$/\1/p' "$file")
    id=${id%%;*}
    [[ ! $id || $id == "$HPCDIST_JOB_ID" ]] || hpcdist_call_if_there "cancel_${hpcdist[scheduler]}" "$id"
  done
} >/dev/null 2>&1

# Signals this script before the time limit, and again when the program must end.
hpcdist_watch_time() {
  local seconds end now notice=${hpcdist[notice]% *} last
  printf -v now '%(%s)T' -1
  hpcdist_seconds_of "${hpcdist[walltime]:-0}"
  end=${SLURM_JOB_END_TIME:-$((seconds ? now - SECONDS + seconds : 0))}
  ((end)) || return 0
  last=$((notice < 60 ? notice / 2 : 30))
  hpcdist_ring "$((end - notice))" "$((end - last))" </dev/null >/dev/null 2>&1 &
  hpcdist_clock=$!
}
hpcdist_ring() {
  local now at
  trap - EXIT TERM INT HUP USR1 USR2 URG
  for at; do
    while printf -v now '%(%s)T' -1 && ((now < at)); do
      sleep 1
      kill -0 "$$" || return
    done
    kill -URG "$$"
  done
}
hpcdist_end_in_time() {
  if [[ ! ${hpcdist_at_limit:-} ]]; then
    hpcdist_at_limit=1
    hpcdist_log_event notice "${hpcdist[notice]#* }"
    [[ ! ${hpcdist_program:-} ]] || hpcdist_notify "${hpcdist[notice]#* }"
  elif [[ ${hpcdist_program:-} ]]; then
    hpcdist_notify TERM
    hpcdist_kill_soon "$hpcdist_program" </dev/null >/dev/null 2>&1 &
    hpcdist_clock=$!
  fi
  hpcdist_signal=URG
}
# Sends the program a signal; but srun that gets TERM kills its tasks at once, so Slurm sends it to them.
hpcdist_notify() {
  if [[ $1 == TERM && ${hpcdist[launcher]} == srun && ${hpcdist[mode]} != once ]]; then
    for _ in {1..10}; do ! timeout 60 scancel -s TERM "$(hpcdist_slurm_id)" || break; sleep 5; done </dev/null >/dev/null 2>&1 &
  else
    hpcdist_send "$1"
  fi
}
# Ends the program, or its process group, after ten seconds, while this script runs.
hpcdist_kill_soon() {
  local try
  trap - EXIT TERM INT HUP USR1 USR2 URG
  for ((try = 0; try < 10; try++)); do
    sleep 1
    kill -0 "$$" && kill -0 "$1" || return
  done
  [[ ${hpcdist[mode]} != once ]] || kill -KILL -- "-$1"
  kill -KILL "$1"
}
# Sets seconds to those of [D-]HH:MM:SS.
hpcdist_seconds_of() {
  local days=0 parts
  [[ $1 != *-* ]] || days=${1%-*}
  IFS=: read -r -a parts <<<"${1#*-}"
  seconds=$(((days * 24 + 10#${parts[0]}) * 3600 + 10#${parts[1]:-0} * 60 + 10#${parts[2]:-0}))
}

hpcdist_slurm_id() { echo "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"; }
# Not one that was cancelled or has ended meanwhile, which Slurm would run again, too.
requeue_slurm() { timeout 60 scontrol requeue Incomplete "$(hpcdist_slurm_id)"; }
# Slurm takes this of jobs in the queue alone, which this one is now: its processes are being ended by TERM.
exclude_slurm() (
  trap '' TERM
  id=$(hpcdist_slurm_id) own=$(squeue -h -j "$(hpcdist_slurm_id)" -o %x)
  exec scontrol update JobId="$id" ExcNodeList="$1${own:+,$own}"
)
down_slurm() { timeout 60 sinfo -h -N -n "$SLURM_JOB_NODELIST" -o '%N %T' | awk '$2 ~ /[*]|down|drain|fail/ && !seen[$1]++ { print $1 }'; }
# Prints why this job is being ended, if it is: tasks get TERM before this script does, or alone when the grace time begins.
# A job that is to make room runs until that is over; one that was cancelled does not.
ending_slurm() {
  timeout 60 scontrol show job "$(hpcdist_slurm_id)" | awk -v RS='[ \n]+' -F= '{ is[$1] = $2 } END {
    if (is["JobState"] == "RUNNING" && is["PreemptTime"] ~ /^[0-9]/ && is["PreemptTime"] "" >= is["StartTime"] "") print "preempt"
    else if (is["JobState"] != "" && is["JobState"] != "RUNNING") print "terminated" }'
}
lives_slurm() { [[ $(timeout 60 squeue -h -j "$1" -o %T) =~ RUNNING|COMPLETING|SUSPENDED ]]; }
lives_pbs() { timeout 60 qstat "$1" >/dev/null 2>&1; }
cancel_slurm() { timeout 60 scancel "$1"; }
cancel_pbs() { timeout 60 qdel "$1"; }
cancel_lsf() { timeout 60 bkill "$1"; }
cancel_sge() { timeout 60 qdel "$1"; }
cancel_flux() { timeout 60 flux --parent cancel "$1"; }
# Exit code 99 means that to Grid Engine, and 100 that the job stays in an error state; a program's own must not.
requeue_sge() { hpcdist_status=99; }
exit_sge() {
  ((hpcdist_status == 99 || hpcdist_status == 100)) || return 0
  echo "hpcdist: the exit code is 1 instead of $hpcdist_status, which Grid Engine takes for a request" >&2
  hpcdist_status=1
}
