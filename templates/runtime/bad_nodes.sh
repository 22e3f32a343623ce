# --- Nodes that were lost, or on which tasks failed first, and those of the next attempt

# Records the nodes that were lost, or the one of several with the first task to fail.
hpcdist_blame() {
  local node
  if [[ $hpcdist_why == node_failure ]]; then
    for node in $(hpcdist_call_if_there "down_${hpcdist[scheduler]}"); do hpcdist_log_event lost "$node"; done
  elif ((hpcdist[nodes] > 1)) && [[ $hpcdist_why == failure ]] && read -r _ _ node _ 2>/dev/null <"$HPCDIST_FAILURE"; then
    hpcdist_log_event blamed "${node%%.*}"
  fi
}
# Prints at most eight nodes that were lost, or blamed twice, within a week: after that one may be in order again.
hpcdist_bad_nodes() {
  local now
  printf -v now '%(%s)T' -1
  [[ ${hpcdist[keep_nodes]:-} ]] || awk -v since="$((now - 7 * 24 * 3600))" '$3 < since { next } ($1 == "lost" && !bad[$4]++) || ($1 == "blamed" && ++blamed[$4] == 2 && !bad[$4]++) { print $4 }' \
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
