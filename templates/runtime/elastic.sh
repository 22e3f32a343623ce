# --- Elastic Horovod: the nodes of the job and the ends of its ranks, for horovodrun

prepare_horovodrun-elastic() {
  local node text=
  rm -f "$HPCDIST_JOB_DIR"/elastic.*
  hpcdist_count_tasks
  for ((node = 0; node < hpcdist[nodes]; node++)); do text+=${hpcdist_nodes[node]}:${hpcdist_on[node]}$'\n'; done
  hpcdist_write_file elastic.hosts "$text"
  text=$(declare -f hpcdist_ask_for_nodes hpcdist_discover "live_nodes_${hpcdist[scheduler]}")
  hpcdist_write_file discover.sh "$text"$'\n'"hpcdist_discover ${hpcdist[scheduler]}"$'\n'
  text=$(declare -f hpcdist_report_end)
  hpcdist_write_file rank.sh "$text"$'\nhpcdist_report_end "$@"\n'
  # A rank counts as lost when its ssh ends, which for a node that is down would never happen: it ends after 20 s,
  # before gloo's own 30 s. horovodrun has no option for ssh's options.
  printf -v text '#!/bin/sh\nexec %q -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=4 "$@"\n' "$(type -P ssh)"
  hpcdist_write_file elastic.ssh "$text"
  hpcdist_move_files
  { mkdir -p "$HPCDIST_JOB_DIR/bin" && chmod +x "$HPCDIST_JOB_DIR/elastic.ssh" && ln -sf ../elastic.ssh "$HPCDIST_JOB_DIR/bin/ssh"; } || hpcdist_unwritten
  export PATH="$HPCDIST_JOB_DIR/bin:$PATH"
}
# horovodrun fails when a rank is lost after another has ended well. Ranks record how they end; a lost one cannot.
hpcdist_report_end() {
  trap : INT HUP USR1 USR2
  trap 'hpcdist_ended_by=TERM' TERM
  "$@"
  hpcdist_code=$?
  if [[ ! ${hpcdist_ended_by:-} ]]; then
    if ((hpcdist_code == 0)); then
      : >"$HPCDIST_ENDED/well"
    else
      (set -C && echo "$hpcdist_code $HOROVOD_RANK $(uname -n)" >"$HPCDIST_FAILURE") 2>/dev/null
    fi
  fi
  exit "$hpcdist_code"
}
# Prints host:slots for each node that the job still has; horovodrun runs this every second, and needs a lock meanwhile:
# so it prints a file at once. elastic.hosts are the job's nodes at its start, elastic.alive those that are left.
hpcdist_discover() {
  local scheduler=$1 asked=0 now
  cd "$HPCDIST_JOB_DIR" || exit
  [[ ! -f elastic.asked ]] || read -r asked <elastic.asked
  printf -v now '%(%s)T' -1
  if [[ ! -f elastic.alive ]]; then # the first time no rank runs yet that could be notified
    hpcdist_ask_for_nodes 0 10 </dev/null >/dev/null 2>&1
    [[ -f elastic.alive ]] || cp elastic.hosts elastic.alive
    echo "$now" >elastic.asked
  elif ((now - asked >= 10)); then
    echo "$now" >elastic.asked
    # In the background, and not on the pipe whose end horovodrun waits for.
    hpcdist_ask_for_nodes "$((${HOROVOD_GLOO_TIMEOUT_SECONDS:-30} + 30))" 30 </dev/null >/dev/null 2>&1 &
  fi
  cat elastic.alive
}
# Queries the batch system, for $2 seconds at most; without an answer nothing changes. A change counts after $1 seconds:
# horovodrun notifies rank 0 of it, and if rank 0 is lost, it tries for minutes; by then it has noticed the loss itself
# and has another rank 0.
hpcdist_ask_for_nodes() {
  local now since host alive left=
  alive=$("live_nodes_$scheduler" "$2") && [[ $alive ]] || return
  while IFS= read -r host; do
    [[ $'\n'$alive$'\n' != *$'\n'${host%:*}$'\n'* ]] || left+=$host$'\n'
  done <elastic.hosts
  [[ $left ]] || return
  printf -v now '%(%s)T' -1
  if [[ ! -f elastic.next || $left != "$(<elastic.next)"$'\n' ]]; then
    printf %s "$left" >elastic.next
    echo "$now" >elastic.since
  fi
  read -r since <elastic.since
  ((now - since < $1)) || { cp elastic.next elastic.part && mv elastic.part elastic.alive; } # replaced as a whole
}
# Sets hpcdist_lost: the nodes that ssh does not reach any more. Ranks elsewhere fail when theirs are lost, and minutes may pass
# until the batch system notices.
hpcdist_find_lost() {
  local node here number pids=()
  ((hpcdist_code != 0)) && [[ ! ${hpcdist_told_to_end:-}${hpcdist_at_limit:-} ]] || return 0
  read -r here </proc/sys/kernel/hostname
  for node in "${hpcdist_nodes[@]}"; do
    if [[ $node == localhost || ${node%%.*} == "${here%%.*}" ]]; then true; else ssh -o BatchMode=yes -o ConnectTimeout=10 "$node" true; fi </dev/null >/dev/null 2>&1 &
    pids+=("$!")
  done
  for number in "${!pids[@]}"; do
    wait "${pids[number]}" || hpcdist_lost+=("${hpcdist_nodes[number]}")
  done
}
live_nodes_local() { echo localhost; }
# With --no-kill a node that is down leaves its job.
live_nodes_slurm() {
  local list
  list=$(timeout "$1" squeue -h -j "$SLURM_JOB_ID" -o %N) && [[ $list ]] && scontrol show hostnames "${list//$'\n'/,}"
}
