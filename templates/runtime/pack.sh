# --- Packed trials: each task of the job is a worker, which runs one trial after another until none is left

hpcdist_of_workers=(hpcdist_run_worker hpcdist_is_stopped hpcdist_is_cancelled hpcdist_watch_trial hpcdist_over_limits hpcdist_apply_limits hpcdist_read_trials hpcdist_claim_next hpcdist_claim hpcdist_run_trial hpcdist_become_trial hpcdist_may_try_again hpcdist_trial_failed hpcdist_can_write
  hpcdist_worker_returns hpcdist_return_trial hpcdist_log_trial hpcdist_prepare_trial hpcdist_forget_launcher trial environment found hpcdist_find_trial hpcdist_choose_trial
  hpcdist_export_trial trial_program write_program hpcdist_size_of hpcdist_write_file hpcdist_move_files hpcdist_unwritten hpcdist_fail
  hpcdist_open_logs hpcdist_open_log hpcdist_take_over hpcdist_lost_claims hpcdist_has_row hpcdist_begin_of
  lives_slurm lives_pbs lives_lsf lives_sge lives_flux lives_local)

# claims/TRIAL.START is a link to its owner, JOB/RESTARTS/RANK/TIME: only one worker can make it, and no lock outlives a
# dead one. START is 0, and one more each time that the trial was returned: then there is again/TRIAL.START, until it is claimed.
hpcdist_begin_packed() {
  declare -gA hpcdist_trial=()
  (umask 077 && exec mkdir -p "$HPCDIST_RUN_DIR/claims" "$HPCDIST_RUN_DIR/again") || hpcdist_unwritten
  hpcdist_call_if_there "id_${hpcdist[scheduler]}" >"$HPCDIST_JOB_DIR/id" || hpcdist_unwritten # for workers of other jobs
  ((hpcdist_restarts == 0)) || hpcdist_return_trials
  [[ ! ${hpcdist[budget]:-} ]] || hpcdist_check_budget
}
# A job may take all its GPUs until its time limit, whether or not they have trials: so it starts as a whole, or not at all.
hpcdist_check_budget() {
  local why
  (hpcdist_has_trials) || return 0
  hpcdist_write_file cost "cost $HPCDIST_JOB_ID ${hpcdist[trial_gpus]} ${hpcdist[cost]}"$'\n'
  why=$(hpcdist_over_limits "${hpcdist[budget]}") || hpcdist_fail "cannot read $HPCDIST_RUN_DIR/events, by which the budget of this search is kept"
  [[ ! $why ]] || { echo "hpcdist: this job runs no trials: $why" >&2 && exit 85; }
}
# Whether a trial of this job waits for a worker.
hpcdist_has_trials() {
  local file trial
  hpcdist_read_trials
  for file in "$HPCDIST_RUN_DIR"/again/*; do
    trial=${file##*/}
    [[ $trial != +([0-9]).+([0-9]) || ! ${hpcdist_rows[${trial%.*}]:-} ]] || return 0
  done
  for trial in "${hpcdist_trials[@]}"; do [[ -L $HPCDIST_RUN_DIR/claims/$trial.0 ]] || return 0; done
  return 1
}
# The launcher is over. Workers end with 0, or it would end the others: the job's exit code is that of the first trial that failed.
hpcdist_end_packed() {
  hpcdist_call_if_there "end_packed_${hpcdist[scheduler]}"
  ((hpcdist_code != 0)) || [[ ! -s $HPCDIST_JOB_DIR/failed ]] || read -r hpcdist_code <"$HPCDIST_JOB_DIR/failed"
  (hpcdist_has_trials) || return 0
  [[ ${hpcdist_element:-} || ${hpcdist[restart]:-} == requeue ]] || echo "hpcdist: some trials have not run to an end: \`hpcdist sweep resume\` runs what is left" >&2
  hpcdist_is_stopped || return 0
  ((hpcdist_code != 0)) || hpcdist_code=85
  echo "hpcdist: no further trial starts: the search was stopped $(<"$HPCDIST_RUN_DIR/stop")" >&2
}
# What a killed launcher or worker leaves runs on. A batch system ends it, with the job: until then its trials are not returned,
# or they would run twice. Without one, this script does, a second after those that end by themselves.
end_packed_local() {
  local pids try
  for ((try = 0; try < 100; try++)); do
    # Workers and programs have this variable, what runs beside them does not.
    pids=$(env -u HPCDIST_FAILURE grep -lszF -e "HPCDIST_FAILURE=$HPCDIST_JOB_DIR/" -e "HPCDIST_FAILURE=${HPCDIST_JOB_DIR}_" /proc/[0-9]*/environ | cut -d/ -f3)
    # shellcheck disable=SC2086 # these are words
    if ((try < 10)); then kill -0 $pids; else kill -KILL $pids; fi 2>/dev/null || break
    sleep 0.1
  done
  hpcdist_return_trials
}
# Returns the trials that workers of this job had claimed, and neither ended nor returned: they were killed.
hpcdist_return_trials() {
  local job name
  while read -r job name; do
    [[ $job != "$HPCDIST_JOB_ID" ]] || hpcdist_return_trial "$name" || hpcdist_unwritten
  done < <(hpcdist_lost_claims)
}
# Prints each claim of a trial that neither ended nor was returned, behind the job whose worker made it.
hpcdist_lost_claims() {
  {
    find "$HPCDIST_RUN_DIR/again" -type f -printf 'again %f\n'
    find "$HPCDIST_RUN_DIR/claims" -type l -printf 'claim %f %l\n'
    cat "$HPCDIST_RUN_DIR"/events.*@* 2>/dev/null
  } | awk '
    $1 == "again" { again[$2] }
    $1 == "claim" { owner[$2] = $3 }
    $1 ~ /^(ended|cancelled|pruned)$/ && $3 > ends[$2] { ends[$2] = $3 }
    END {
      for (name in owner) {
        split(owner[name], by, "/") # job, restarts, rank, time
        split(name, at, ".")
        id = by[1]
        sub(/[+].*/, "", id)
        id = id "_" at[1]
        after = at[1] "." (at[2] + 1)
        if (!(after in owner) && !(after in again) && !(id in ends && ends[id] >= by[4])) print by[1], name
      }
    }'
}
# When nothing is left to claim: returns the trials of jobs that are gone, by the word of the batch system, which is asked about
# a job once a minute at most, whichever worker asks, and about few jobs. Returns 1 if there are none.
hpcdist_take_over() {
  local job name code=1 folder
  local -A lives=()
  while read -r job name; do
    folder=$HPCDIST_RUN_DIR/jobs/$job
    [[ $job != "$HPCDIST_JOB_ID" && -s $folder/id ]] || continue
    if [[ ! ${lives[$job]:-} ]]; then
      ((${#lives[@]} < 8)) && [[ ! $(find "$folder/asked" -mmin -1 2>/dev/null) ]] || continue
      : >"$folder/asked"
      "lives_${hpcdist[scheduler]}" "$(<"$folder/id")"
      lives[$job]=$?
    fi
    ((lives[$job] == 1)) || continue
    : >"$HPCDIST_RUN_DIR/again/${name%.*}.$((${name##*.} + 1))" && code=0
    echo "hpcdist: trial ${name%.*} is returned, to be run again: job $job is gone"
  done < <(hpcdist_lost_claims)
  return "$code"
}
hpcdist_return_trial() {
  hpcdist_log_trial "returned ${hpcdist_job}_${1%.*}" "${2:-unknown}" &&
    : >"$HPCDIST_RUN_DIR/again/${1%.*}.$((${1##*.} + 1))" && echo "hpcdist: trial ${1%.*} is returned, to be run again"
}
# A file for each job and node: appended to from two nodes, a file may lose lines on NFS.
hpcdist_log_trial() { printf '%s %(%s)T %s\n' "$1" -1 "$2" >>"$HPCDIST_RUN_DIR/events.$HPCDIST_JOB_ID@$HOSTNAME"; }

# The worker. The nodes of the last job may hold more of them than may run.
hpcdist_run_worker() {
  local watcher
  hpcdist_worker=$(((${hpcdist_element:-1} - 1) * hpcdist[tasks] + HPCDIST_RANK))
  ((hpcdist_worker < hpcdist[packed])) || exit 0
  hpcdist_trap_task_signals
  hpcdist_read_trials
  while [[ ! ${hpcdist_ended_by:-} ]] && ! hpcdist_is_stopped && { hpcdist_claim_next || { hpcdist_take_over && hpcdist_claim_next; }; }; do
    hpcdist_watch_trial "${hpcdist_claimed%.*}" "${hpcdist_claimed##*.}" </dev/null >/dev/null 2>&1 &
    watcher=$!
    disown "$watcher" # of its end bash would write a line
    hpcdist_run_trial "${hpcdist_claimed%.*}" "${hpcdist_claimed##*.}"
    kill "$watcher" 2>/dev/null
  done
  hpcdist_end_gpu_usage
  [[ ${hpcdist_ended_by:-} ]] || exit 0
  hpcdist_first_to_fail 143
  exit 143
}
# The log is read when a worker begins and after each failure, which alone can be one too many: so it is read seldom.
hpcdist_is_stopped() {
  local why
  [[ ! -e $HPCDIST_RUN_DIR/stop ]] || return 0
  [[ ${hpcdist[max_failures]:-} && ${hpcdist_code:-1} != 0 ]] && why=$(hpcdist_over_limits) && [[ $why ]] && echo "as $why" >"$HPCDIST_RUN_DIR/stop"
}
hpcdist_is_cancelled() { [[ -e $HPCDIST_RUN_DIR/cancelled_trials/$1 ]]; }
# Beside a worker: ends the program of trial $1, which was returned $2 times, if the trial is cancelled, 30 s later by force.
hpcdist_watch_trial() {
  local pids seconds=0 never
  exec {never}<> <(:) # from which nothing comes: read -t waits without a process of its own
  until read -rt 1 -u "$never" || ! kill -0 "$$"; do
    hpcdist_is_cancelled "$1" || continue
    pids=$(grep -lszF -e "HPCDIST_FAILURE=$HPCDIST_RUN_DIR/jobs/${hpcdist_job}_$1/failure.$2." /proc/[0-9]*/environ | cut -d/ -f3)
    [[ $pids ]] || continue
    # shellcheck disable=SC2086 # these are words
    if ((seconds == 0)); then kill $pids; elif ((seconds >= 30)); then kill -KILL $pids; fi
    seconds=$((seconds + 1))
  done
}
# Sets hpcdist_trials to the trials in the table of this job, and hpcdist_rows to the row of each of them.
hpcdist_read_trials() {
  local row table=${hpcdist[run_dir]:-$PWD}/${hpcdist[trials]}
  mapfile -t -s 1 hpcdist_trials <"$table" || hpcdist_fail_task "cannot read $table, which has the trials of this job"
  hpcdist_trials=("${hpcdist_trials[@]%%$'\t'*}") hpcdist_rows=() hpcdist_row=0
  for row in "${!hpcdist_trials[@]}"; do hpcdist_rows[hpcdist_trials[row]]=$row; done
}
# Claims a trial that was returned, else the next of the table; at first that of its own number, as all workers may begin at
# once. All rows before the one in claims/next.TABLE are claimed: it is written by who has seen those.
hpcdist_claim_next() {
  local file row hint=$HPCDIST_RUN_DIR/claims/next.${hpcdist[trials]} first=${hpcdist_trials[hpcdist_worker]:-}
  if [[ $first && ! ${hpcdist_claimed:-} ]]; then
    hpcdist_claim "$first.0" && return
  fi
  for file in "$HPCDIST_RUN_DIR"/again/*; do
    row=${file##*/}
    [[ $row == +([0-9]).+([0-9]) && ${hpcdist_rows[${row%.*}]:-} ]] || continue
    if hpcdist_claim "$row"; then
      rm -f -- "$file"
      return
    fi
  done
  read -r row 2>/dev/null <"$hint" && [[ $row == +([0-9]) ]] && ((row > hpcdist_row)) && hpcdist_row=$row
  for (( ; hpcdist_row < ${#hpcdist_trials[@]}; hpcdist_row++)); do
    hpcdist_claim "${hpcdist_trials[hpcdist_row]}.0" || continue
    echo "$((++hpcdist_row))" 2>/dev/null >"$hint"
    return 0
  done
  return 1
}
hpcdist_claim() {
  local file=$HPCDIST_RUN_DIR/claims/$1 owner
  [[ ! -L $file ]] || return 1
  printf -v owner '%s/%s/%s/%(%s)T' "$HPCDIST_JOB_ID" "$hpcdist_restarts" "$HPCDIST_RANK" -1
  # NFS may report that a link exists which it made itself, as a reply was lost.
  if ln -sn "$owner" "$file" 2>/dev/null || [[ $(readlink "$file") == "$owner" ]]; then
    hpcdist_claimed=$1
  elif [[ -L $file ]]; then
    return 1
  else
    hpcdist_fail_task "cannot write to $HPCDIST_RUN_DIR/claims; is the disk full, or your quota used up?"
  fi
}
# Runs trial $1, which was returned $2 times, and again after a failure as often as the experiment says.
hpcdist_run_trial() {
  local id=${hpcdist_job}_$1 log=$HPCDIST_RUN_DIR/logs/job-$1.out end=ended why prepared
  hpcdist_try=0 hpcdist_code=143
  { hpcdist_log_trial "started $id" "$2" && : >>"$log"; } || hpcdist_fail_task "cannot write to $HPCDIST_RUN_DIR; is the disk full, or your quota used up?"
  while ! hpcdist_is_cancelled "$1"; do
    [[ ! ${hpcdist_ended_by:-} ]] || { hpcdist_worker_returns "$1.$2" 143 && return; }
    hpcdist_count_oom_kills
    hpcdist_oom_kills_before=$hpcdist_oom_kills
    prepared=$HPCDIST_RUN_DIR/jobs/$id/prepared.$2.$hpcdist_try
    hpcdist_run_signalled hpcdist_become_trial "$1" "$2" "$prepared" </dev/null >>"$log" 2>&1
    hpcdist_code=$?
    # It is no failure of the trial that its program could not be started, as of a full disk: all that follow would fail, too.
    [[ -e $prepared ]] || ((hpcdist_code != 86)) || { hpcdist_worker_returns "$1.$2" 86 && hpcdist_fail_task "trial $1 could not be prepared; $log shows why"; }
    # TERM may reach the program a moment before it reaches this shell.
    ((hpcdist_code != 143)) || [[ ${hpcdist_ended_by:-} ]] || sleep 1
    if ((hpcdist_code == 0)) && [[ ${hpcdist_ended_by:-} ]]; then
      hpcdist_code=143
      echo "hpcdist: trial $1 ended with exit code 0 when it was told to end; whether it had finished is unknown" >>"$log"
    fi
    ((hpcdist_code != 0)) || break
    ! hpcdist_is_cancelled "$1" || break
    [[ ! -s $HPCDIST_RUN_DIR/jobs/$id/failure.$2.$hpcdist_try.pruned ]] || { end=pruned && break; }
    # On a full disk all further trials would fail as well.
    hpcdist_can_write || { hpcdist_return_trial "$1.$2" "$hpcdist_code"; hpcdist_fail_task "trial $1 failed, and nothing can be written to $HPCDIST_RUN_DIR; is the disk full, or your quota used up?"; }
    hpcdist_count_oom_kills
    why="exit code $hpcdist_code"
    ((hpcdist_oom_kills == hpcdist_oom_kills_before)) || why+="; the kernel killed a process on its node for lack of memory: ask for more by environment.resources.memory"
    echo "hpcdist: trial $1 failed on $HOSTNAME ($why)" >>"$log"
    [[ ! ${hpcdist_ended_by:-} ]] || { hpcdist_worker_returns "$1.$2" "$hpcdist_code" && return; }
    hpcdist_may_try_again || break
    hpcdist_log_trial "restarted $id" "$hpcdist_code"
  done
  ((hpcdist_code == 0)) || ! hpcdist_is_cancelled "$1" || end=cancelled
  hpcdist_log_trial "$end $id" "$hpcdist_code" || hpcdist_fail_task "the end of trial $1 cannot be written to $HPCDIST_RUN_DIR; is the disk full, or your quota used up?"
  [[ $hpcdist_code == 0 || $end != ended ]] || hpcdist_trial_failed "$1"
}
hpcdist_become_trial() { hpcdist_prepare_trial "$1" "$2" && : >"$3" && trial; }
hpcdist_may_try_again() {
  local code
  ((hpcdist_code != 86 && hpcdist_code < 128 && hpcdist_try < ${hpcdist[max_restarts]:-0})) || return
  [[ ! ${hpcdist[restart]:-} || " ${hpcdist[restart_on]} " == *" failure "* ]] || return
  for code in ${hpcdist[stop_on_exit]:-}; do ((code != hpcdist_code)) || return; done
  hpcdist_try=$((hpcdist_try + 1))
}
hpcdist_worker_returns() { hpcdist_return_trial "$@" || hpcdist_fail_task "trial ${1%.*} cannot be returned: cannot write to $HPCDIST_RUN_DIR; is the disk full, or your quota used up?"; }
# Into a new file: one that is there has its space.
hpcdist_can_write() {
  local file=$HPCDIST_JOB_DIR/space.$HPCDIST_RANK
  { echo . >"$file"; } 2>/dev/null && [[ -s $file ]] && rm -f -- "$file"
}
hpcdist_trial_failed() {
  (set -C && echo "$hpcdist_code" >"$HPCDIST_JOB_DIR/failed") 2>/dev/null || [[ -s $HPCDIST_JOB_DIR/failed ]] ||
    hpcdist_fail_task "the failure of trial $1 cannot be written to $HPCDIST_JOB_DIR; is the disk full, or your quota used up?"
  echo "hpcdist: trial $1 failed with exit code $hpcdist_code; its output is $HPCDIST_RUN_DIR/logs/job-$1.out" >&2
}
# In the shell that becomes the program: all is as in a job of its own, of one task.
hpcdist_prepare_trial() {
  local hpcdist_element=$((hpcdist_rows[$1] + 1)) node # of an array of trials; then the trial
  read -r node < <(sed -n "$((HPCDIST_NODE + 1))p" "$HPCDIST_JOB_DIR/nodes")
  ((HPCDIST_NODE == 0)) || HPCDIST_HEAD_ADDRESS=$HPCDIST_ADDRESS
  [[ ${POLYAXON_OFFLINE_ROOT:-} != "$HPCDIST_TRACKING"* ]] || unset POLYAXON_OFFLINE_ROOT POLYAXON_RUN_INSTANCE
  export HPCDIST_JOB_ID=${hpcdist_job}_$1 HPCDIST_PORT=$((HPCDIST_PORT + 16 * HPCDIST_LOCAL_RANK))
  export HPCDIST_JOB_DIR=$HPCDIST_RUN_DIR/jobs/$HPCDIST_JOB_ID HPCDIST_OUTPUTS=$HPCDIST_RUN_DIR/outputs/$1 HPCDIST_CHECKPOINTS=$HPCDIST_RUN_DIR/checkpoints/$1
  export HPCDIST_TRACKING=$HPCDIST_RUN_DIR/tracking/$HPCDIST_JOB_ID/$2.$hpcdist_try HPCDIST_FAILURE=$HPCDIST_JOB_DIR/failure.$2.$hpcdist_try
  export HPCDIST_ATTEMPT=$(($2 + hpcdist_try)) HPCDIST_RESUMED=$(($2 + hpcdist_try > 0))
  export HPCDIST_RANK=0 HPCDIST_SIZE=1 HPCDIST_LOCAL_RANK=0 HPCDIST_LOCAL_SIZE=1 HPCDIST_NODE=0 HPCDIST_NODES=1
  (umask 077 && exec mkdir -p "$HPCDIST_JOB_DIR" "$HPCDIST_OUTPUTS" "$HPCDIST_CHECKPOINTS") || hpcdist_unwritten
  hpcdist_find_trial
  hpcdist_choose_trial
  hpcdist_open_logs
  echo "hpcdist: trial $1 on $node:$hpcdist_trial_params (job $HPCDIST_JOB_ID)"
  hpcdist_write_file nodes "$node"$'\n'
  hpcdist_write_file "nodes.$2" "$node"$'\n'
  trial_program
  hpcdist_move_files
  hpcdist_forget_launcher
  environment
  hpcdist_export_trial
  task_environment
  hpcdist_add_modules
  hpcdist_set_polyaxon 0
}
# The variables by which a program would take itself for one task of the workers' launch.
hpcdist_forget_launcher() {
  local name
  for name in $(compgen -e); do
    case $name in
    HPCDIST_HOSTFILE | HPCDIST_START_* | PMI_* | PMI2_* | PMIX_* | MPI_LOCAL* | PALS_* | JSM_* | FLUX_TASK_* | \
      OMPI_COMM_WORLD_* | OMPI_UNIVERSE_SIZE | OMPI_APP_CTX_* | OMPI_FIRST_RANKS | OMPI_NUM_APP_CTX | OMPI_ARGV | OMPI_COMMAND | \
      OMPI_FILE_LOCATION | OMPI_MCA_orte_* | OMPI_MCA_ess* | OMPI_MCA_pmix* | OMPI_MCA_plm | PRTE_MCA_* | \
      SLURM_STEP* | SLURM_PROCID | SLURM_LOCALID | SLURM_NODEID | SLURM_NTASKS* | SLURM_NPROCS | SLURM_TASKS_PER_NODE | \
      SLURM_GTIDS | SLURM_LAUNCH_* | SLURM_SRUN_* | SLURM_PMI* | SLURM_MPI_TYPE) unset "$name" ;;
    esac
  done
}
