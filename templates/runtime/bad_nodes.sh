# --- Nodes that were lost, or on which tasks failed first, and those of the next attempt

# Records the nodes that were lost, or the one of several with the first task to fail.
hpcdist_blame() {
  local node
  if [[ $hpcdist_why == node_failure ]]; then
    while read -r node; do
      hpcdist_log_event lost "$node"
    done < <({ hpcdist_call_if_there "down_${hpcdist[scheduler]}"; printf '%s\n' "${hpcdist_lost[@]%%.*}"; } | grep . | sort -u)
  elif ((hpcdist[nodes] > 1)) && [[ $hpcdist_why == failure ]] && read -r _ _ node _ 2>/dev/null <"$HPCDIST_FAILURE"; then
    hpcdist_log_event blamed "${node%%.*}"
  fi
}
# Records the nodes that are down of those of the attempt before, whose script was killed before it could say how it ended.
hpcdist_blame_earlier() {
  local job start earlier=() node IFS=$' \n'
  read -r job start _ <"$hpcdist_attempts/$HPCDIST_ATTEMPT"
  [[ ! -e $hpcdist_attempts/$HPCDIST_ATTEMPT.why && -s $HPCDIST_RUN_DIR/jobs/$job/nodes.${start%%.*} ]] || return 0
  mapfile -t earlier <"$HPCDIST_RUN_DIR/jobs/$job/nodes.${start%%.*}"
  IFS=,
  while read -r node; do hpcdist_log_event lost "$node"; done < <(hpcdist_call_if_there "down_${hpcdist[scheduler]}" "${earlier[*]}")
  [[ ${hpcdist[restart]} != follow ]] || hpcdist_exclude_from_followers
}
# Prints at most eight nodes that are suspect by this run's own events, the most suspect first: a loss counts 1, a blame 1/3,
# each half as much after a week, and losses within an hour once; from 1/2 on a node is suspect (docs/how-to/nodes.md).
hpcdist_bad_nodes() {
  local now
  printf -v now '%(%s)T' -1
  [[ ${hpcdist[keep_nodes]:-} ]] || awk -v now="$now" '
    $1 == "lost" && $4 in lost && $3 - lost[$4] < 3600 { next }
    $1 == "lost" { lost[$4] = $3 }
    $1 == "lost" || $1 == "blamed" { sum[$4] += ($1 == "lost" ? 1 : 1 / 3) * exp(-(now > $3 ? now - $3 : 0) * log(2) / 604800) }
    END { for (node in sum) if (sum[node] >= 0.5) printf "%d %s\n", sum[node] * 1000, node }' \
    "$HPCDIST_RUN_DIR/events" | sort -k1,1nr -k2,2 | head -n 8 | cut -d ' ' -f 2
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
