# --- What batch systems need once the job's shell is ready

begin_flux() { trap 'hpcdist_log_event timeout 0; hpcdist_forward TERM' ALRM; } # Flux sends it at the time limit

# Without a batch system nothing ends the job at its time limit: a separate process does.
begin_local() {
  [[ ${hpcdist[walltime]:-} ]] || return 0
  # Not after ||: a shell would then wait for it that has the job's token, and would be taken for a leftover of the job.
  env -u HPCDIST_TOKEN SECONDS="$SECONDS" bash -c "$(declare -f hpcdist_watch_limit hpcdist_seconds_of hpcdist_log_event); hpcdist_watch_limit \"\$@\"" \
    hpcdist $$ "${HPCDIST_TOKEN:-}" "${hpcdist[walltime]}" </dev/null >/dev/null 2>&1 &
}
# Ends script $1 at time limit $3; 10 s later kills all processes with the job's token, also those in other
# process groups; the script last, since it records the end. If the script was killed, its processes have the same limit.
hpcdist_watch_limit() {
  local script=$1 token=$2 seconds try
  # Once it has ended, another program may have its process id.
  is_running() { [[ $script ]] && { kill -0 "$script" || { script='' && false; }; }; }
  others() { [[ $token ]] && grep -lszxF -e "HPCDIST_TOKEN=$token" /proc/[0-9]*/environ | cut -d/ -f3 | grep -vx "$script"; }
  hpcdist_seconds_of "$3"
  while ((SECONDS <= seconds)); do # it counts the clock's whole seconds, and may be one ahead
    sleep 1
    is_running || [[ $(others) ]] || return 0
  done
  if is_running; then
    echo "hpcdist: the time limit of $3 is over" >>"/proc/$script/fd/2"
    hpcdist_log_event timeout 0
    kill -TERM "$script"
  fi
  for ((try = 0; try < 20; try++)); do
    sleep 0.5
    is_running || [[ $(others) ]] || return 0
  done
  [[ $token || ! $script ]] || kill -KILL -- "-$script"
  # shellcheck disable=SC2046,SC2086 # these are words
  { kill -KILL $(others); sleep 1; kill -KILL $script $(others); }
}

begin_pbs() {
  local node
  if [[ ${hpcdist[tasks_per_node]} == *,* ]]; then
    # Where nodes hold different numbers of tasks, PBS must list them in the plan's order.
    hpcdist_count_tasks
    for ((node = 0; node < hpcdist[nodes]; node++)); do
      ((hpcdist_named[${hpcdist_nodes[node]}] == hpcdist_on[node])) ||
        hpcdist_fail "${hpcdist_nodes[node]} is named ${hpcdist_named[${hpcdist_nodes[node]}]} times in \$PBS_NODEFILE, the plan has ${hpcdist_on[node]} tasks there"
    done
  fi
  ((hpcdist[nodes] == 1)) || [[ ${hpcdist[mode]} != once && ${hpcdist[remote_shell]:-} != agent ]] || hpcdist_start_by_pbs
}
# mpirun starts its daemons on other nodes through PBS: many centres have no ssh between nodes, and PBS neither accounts
# for nor ends what ssh starts. An MPI that was built with PBS's library does so by itself.
hpcdist_start_by_pbs() {
  local program libraries='' agent=$HPCDIST_JOB_DIR/remote.sh
  # shellcheck source=/dev/null # where PBS is
  program=$(type -P pbs_tmrsh) || program=$(. /etc/pbs.conf && type -P "$PBS_EXEC/bin/pbs_tmrsh") 2>/dev/null || return
  [[ ! ${LD_LIBRARY_PATH:-} ]] || printf -v libraries 'export LD_LIBRARY_PATH=%q; ' "$LD_LIBRARY_PATH"
  # shellcheck disable=SC2016 # it expands them
  printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec %q "$1" /bin/bash -c %q"${*:2}"\n' \
    "$program" "$libraries" >"$agent" || hpcdist_fail "cannot write $agent"
  chmod +x "$agent"
  export OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-$agent} PRTE_MCA_plm_ssh_agent=${PRTE_MCA_plm_ssh_agent:-$agent}
  [[ ${HYDRA_LAUNCHER:-} || ${HYDRA_BOOTSTRAP:-} ]] || export HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$agent
  [[ ${I_MPI_HYDRA_BOOTSTRAP:-} ]] || export I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_BOOTSTRAP_EXEC=$agent
}
# Prints the nodes on which nothing can be started: they are down, or refuse logins.
lost_pbs() {
  local node by="by ssh, by which ${hpcdist[launcher]} starts tasks there; let \`ssh NODE true\` work without a password, or have the site put PBS's pbs_tmrsh on its nodes"
  local reach=(ssh -o BatchMode=yes -o ConnectTimeout=5) lost=()
  [[ ${hpcdist[remote_shell]:-} == agent ]] || return 0
  [[ ! -x $HPCDIST_JOB_DIR/remote.sh ]] || { by="by PBS's pbs_tmrsh: it was lost" && reach=("$HPCDIST_JOB_DIR/remote.sh"); }
  for node in "${hpcdist_nodes[@]:1}"; do
    timeout 10 "${reach[@]}" "$node" true </dev/null >/dev/null 2>&1 || lost+=("$node")
    ((${#lost[@]} < 3)) || break
  done
  [[ -z ${lost[*]} ]] || echo "hpcdist: $(uname -n) cannot reach ${lost[*]} $by" >&2
}
