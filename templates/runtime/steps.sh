# --- Steps of the experiment before its program, beside it and after it: hpcdist_steps has three words of each, when, where
# and what it runs

# Runs those of time $1, one after another, until one fails.
hpcdist_run_steps() {
  local number
  for ((number = 0; number < ${#hpcdist_steps[@]}; number += 3)); do
    [[ ${hpcdist_steps[number]} != "$1" ]] || hpcdist_run_step "$number" || return
  done
}
hpcdist_prepare() {
  hpcdist_run_steps before && return
  echo "hpcdist: a step before the program failed (exit code $?), so that it does not run; its messages are above" >&2
  hpcdist_status=86
  return 1
}
# A failure is the job's if its program ended well. The event shows that these steps had begun, if the job is lost in them.
hpcdist_clean_up() {
  local code
  ((${#hpcdist_steps[@]})) || return 0
  hpcdist_log_event finishing "$hpcdist_status"
  export HPCDIST_EXIT_CODE=$hpcdist_status
  hpcdist_run_steps after && return
  code=$?
  echo "hpcdist: a step after the program failed, with exit code $code" >&2
  ((hpcdist_status != 0)) || hpcdist_status=$code
}
# Whether an earlier start of this job, or the job that it follows, was lost in the steps after the last attempt, whose number is
# set again.
hpcdist_was_finishing() {
  [[ $(awk -v id="$HPCDIST_JOB_ID" -v way="${hpcdist[restart]}" '
    ($2 == id || way == "follow") && $1 ~ /^(finishing|ended|cancelled)$/ { last = $1 }
    END { print last }' "$HPCDIST_RUN_DIR/events") == finishing ]] || return
  HPCDIST_ATTEMPT=$((HPCDIST_ATTEMPT - 1))
  export HPCDIST_ATTEMPT HPCDIST_RESUMED=$((HPCDIST_ATTEMPT > 0))
  echo "hpcdist: the steps after the program had not ended; they run again"
}
# Starts the programs beside the tasks; each node ends its own when it finds a file, since not every way to a node passes
# signals on.
hpcdist_start_beside() {
  local number log
  hpcdist_beside=()
  for ((number = 0; number < ${#hpcdist_steps[@]}; number += 3)); do
    [[ ${hpcdist_steps[number]} == beside ]] || continue
    log=$HPCDIST_RUN_DIR/logs/job${hpcdist_element:+-$hpcdist_element}.beside-$number.out
    hpcdist_run_one_beside "$number" "$log" &
    hpcdist_beside+=("$!")
  done
}
# The tasks may wait for ever for one with a node of its own that has failed: it ends the job.
hpcdist_run_one_beside() {
  local code=0
  hpcdist_run_step "$1" >>"$2" 2>&1 || code=$?
  [[ -e $HPCDIST_JOB_DIR/beside.$hpcdist_restarts ]] ||
    echo "hpcdist: a program beside the tasks ended with exit code $code; its output is in $2" >&2
  [[ $code != 0 && ${hpcdist_steps[$1 + 1]} == own_node && ! -e $HPCDIST_JOB_DIR/beside.$hpcdist_restarts ]] || return 0
  echo "$code" >"$HPCDIST_JOB_DIR/beside_failed.$hpcdist_restarts"
  kill -TERM $$
}
hpcdist_run_beside() {
  hpcdist_start_beside
  hpcdist_run_all
  hpcdist_end_beside
  hpcdist_report_beside
}
hpcdist_report_beside() {
  local code failed=$HPCDIST_JOB_DIR/beside_failed.$hpcdist_restarts
  [[ -e $failed ]] && read -r code <"$failed" || return
  echo "hpcdist: a program with a node of its own failed, with exit code $code, which ended the job; its output is in $HPCDIST_RUN_DIR/logs" >&2
  hpcdist_status=$code
}
hpcdist_end_beside() {
  local try
  ((${#hpcdist_beside[@]})) || return 0
  : >"$HPCDIST_JOB_DIR/beside.$hpcdist_restarts"
  for ((try = 0; try < 15; try++)); do
    kill -0 "${hpcdist_beside[@]}" 2>/dev/null || return 0
    sleep 1
  done
  kill "${hpcdist_beside[@]}" 2>/dev/null
}

hpcdist_run_step() {
  local on=${hpcdist_steps[$1 + 1]} file=$HPCDIST_JOB_DIR/step.$1.sh last=$((${#hpcdist_nodes[@]} - 1)) own number
  hpcdist_write_step "$1" || return
  case $on in
  job) bash "$file" 0 </dev/null ;;
  node) "steps_${hpcdist[steps]:-nodes}" "$file" 0 "$last" ;;
  own_node)
    own=$last
    for ((number = 0; number <= $1; number += 3)); do [[ ${hpcdist_steps[number + 1]} != own_node ]] || own=$((own + 1)); done
    local hpcdist_nodes=("${hpcdist_nodes[@]}" "${hpcdist_own_nodes[@]}")
    "steps_${hpcdist[steps]:-nodes}" "$file" "$own" "$own"
    ;;
  last_node) "steps_${hpcdist[steps]:-nodes}" "$file" "$last" "$last" ;;
  esac
}
# It has the variables of the tasks, and begins in the same folder. Its argument is the number of its node.
hpcdist_write_step() (
  environment
  hpcdist_name_variables
  printf -v text 'cd %q || exit\nexport HPCDIST_NODE=$1\n' "$PWD"
  for name in "${hpcdist_names[@]}" HPCDIST_EXIT_CODE; do
    [[ ! -v $name ]] || printf -v text '%sexport %s=%q\n' "$text" "$name" "${!name}"
  done
  if [[ ${hpcdist_steps[$1]} == beside ]]; then
    printf -v text '%sset -m\nbash -c %q &\nprogram=$!\nexec 2>/dev/null\n' "$text" "${hpcdist_steps[$1 + 2]}"
    printf -v text '%suntil [[ -e %q ]]; do\n  kill -0 "$program" 2>/dev/null || { wait "$program"; exit; }\n  sleep 1\ndone\n' \
      "$text" "$HPCDIST_JOB_DIR/beside.$hpcdist_restarts"
    text+=$'kill -TERM -- "-$program"\nfor _ in {1..10}; do kill -0 "$program" 2>/dev/null || exit 0; sleep 1; done\nkill -KILL -- "-$program"\n'
  else
    [[ ${hpcdist_steps[$1 + 2]} != stage_* ]] || text+=$(declare -f stage_broadcast stage_copy stage_unpack)$'\n'
    text+=${hpcdist_steps[$1 + 2]}$'\n'
  fi
  hpcdist_write_file "step.$1.sh" "$text"
  hpcdist_move_files
)
# Steps for data, of file or folder $1, which is to be $2 on each node; .part until it is whole.
stage_broadcast() {
  [[ -d $1 || -e $2 ]] || sbcast --force "$1" "$2.part" || echo "hpcdist: each node copies $1"
}
stage_copy() {
  [[ ! -e $2 ]] || return 0
  if [[ ! -f $2.part || $(stat -c %s -- "$2.part") != "$(stat -Lc %s -- "$1")" ]]; then
    rm -rf -- "$2.part" && cp -r -- "$1" "$2.part" || return
  fi
  mv -- "$2.part" "$2"
}
# It is an archive, unpacked in folder $3; in the job's own, nothing that is there may be lost.
stage_unpack() {
  local keep=''
  [[ $3 != "$HPCDIST_STAGE" ]] || keep=k
  stage_copy "$1" "$2" || return
  case $2 in
  *.zip) unzip -qo "$2" -d "$3" ;;
  *) tar "-x${keep}f" "$2" -C "$3" ;;
  esac && rm -- "$2"
}
# Run file $1 on the nodes from number $2 to $3, beside what runs there.
steps_srun() {
  local file=$1 chosen=("${hpcdist_nodes[@]:$2:$3-$2+1}") IFS=,
  # shellcheck disable=SC2016 # each task expands it
  srun --overlap --nodes="${#chosen[@]}" --ntasks="${#chosen[@]}" --ntasks-per-node=1 --cpu-bind=none --nodelist="${chosen[*]}" \
    bash -c 'exec bash "$0" "$(($1 + SLURM_PROCID))"' "$file" "$2" </dev/null
}
steps_nodes() {
  local file=$1 number code=0 here pid pids=()
  read -r here </proc/sys/kernel/hostname
  for ((number = $2; number <= $3; number++)); do
    hpcdist_on_node "$number" "$file" </dev/null &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
  return "$code"
}
hpcdist_on_node() {
  local node=${hpcdist_nodes[$1]} command
  printf -v command 'bash %q %d' "$2" "$1"
  if [[ $node == localhost || ${node%%.*} == "${here%%.*}" ]]; then
    bash "$2" "$1"
  elif [[ ${hpcdist[scheduler]} == lsf ]]; then
    blaunch "$node" "$command"
  elif [[ ${hpcdist[scheduler]} == flux ]]; then
    flux exec -r "$1" bash "$2" "$1"
  elif [[ -x $HPCDIST_JOB_DIR/remote.sh ]]; then
    "$HPCDIST_JOB_DIR/remote.sh" "$node" "$command"
  else
    ssh -o BatchMode=yes -o ConnectTimeout=20 "$node" "$command"
  fi
}
