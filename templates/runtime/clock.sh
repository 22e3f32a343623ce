# --- The time limit: a signal before it, for the program to save its state, and one when it must end

# Signals this script before the time limit, and again when the program must end.
hpcdist_watch_time() {
  local seconds end now notice=${hpcdist[notice]% *} last
  printf -v now '%(%s)T' -1
  hpcdist_seconds_of "${hpcdist[walltime]:-0}"
  end=${SLURM_JOB_END_TIME:-$((seconds ? now - SECONDS + seconds : 0))}
  ((end)) || return 0
  ((notice <= (end - now) / 2)) || notice=$(((end - now) / 2)) # a program that has just begun would die of it
  last=$((notice < 60 ? notice / 2 : 30)) hpcdist_grace=$((last / 3))
  hpcdist_ring "$end" "$notice" "$last" </dev/null >/dev/null 2>&1 &
  hpcdist_clock=$!
}
# Signals the script so many seconds before $1, each: the limit may have been put off meanwhile.
hpcdist_ring() {
  local end=$1 before
  trap - EXIT TERM INT HUP USR1 USR2 URG
  for before in "${@:2}"; do
    until hpcdist_is_near; do
      sleep 1
      kill -0 "$$" || return
    done
    kill -URG "$$"
  done
}
hpcdist_is_near() {
  local now later
  printf -v now '%(%s)T' -1
  ((now >= end - before)) || return
  later=$(hpcdist_call_if_there "end_${hpcdist[scheduler]}")
  [[ $later =~ ^[1-9][0-9]*$ ]] && ((later > end)) || return 0
  ((now >= (end = later) - before))
}
end_slurm() { SLURM_TIME_FORMAT=%s timeout 60 squeue -h -j "$(hpcdist_slurm_id)" -o %e; }
# TERM may mean that the limit came before this script acted: it was shortened, or the notice too short. The batch system kills
# the script in a moment, so the job goes into the queue at once; its next start judges whether an attempt begins.
hpcdist_meet_limit() {
  [[ ${hpcdist[restart]:-} == requeue && " ${hpcdist[restart_on]} " == *" timeout "* && ! ${hpcdist_late:-}${hpcdist[rehearsal]:-} ]] || return 0
  [[ $(trap '' TERM && hpcdist_call_if_there "ending_${hpcdist[scheduler]}") == timeout ]] || return 0
  hpcdist_late=1
  [[ ! ${hpcdist[packed]:-} ]] || return 0 # whose next start does not count
  echo timeout >"$hpcdist_attempts/$HPCDIST_ATTEMPT.why"
  "requeue_${hpcdist[scheduler]}" || return 0
  hpcdist_end=requeued
  hpcdist_log_event again timeout
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
# Whether it is srun that gets the script's signals: at TERM it kills its tasks at once.
hpcdist_starts_by_srun() { [[ ${hpcdist[launcher]} == srun && ${hpcdist[mode]} != once ]]; }
# Sends the program a signal, or has Slurm send it to the tasks.
hpcdist_notify() {
  [[ $1 != TERM ]] || hpcdist_got_term=1
  if [[ $1 == TERM ]] && hpcdist_starts_by_srun; then
    for _ in {1..10}; do ! timeout 60 scancel -s TERM "$(hpcdist_slurm_id)" || break; sleep 5; done </dev/null >/dev/null 2>&1 &
  elif [[ $1 == USR[12] && ${hpcdist[launcher]} == flux ]]; then
    hpcdist_signal_flux "$1" # Flux, which passes these on, did not send it
  else
    hpcdist_send "$1"
  fi
}
# Ends the program, or its process group, after ten seconds, or less where the notice is short, while this script runs.
hpcdist_kill_soon() {
  local try
  trap - EXIT TERM INT HUP USR1 USR2 URG
  for ((try = 0; try < ${hpcdist_grace:-10}; try++)); do
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
