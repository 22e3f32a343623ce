# --- The trial of a search that this element of the array runs: a row of a table like trials.tsv, which has one for each

# Sets hpcdist_trial_row to the row of this element, below the names, and hpcdist_element to its trial, by which the run knows it.
hpcdist_find_trial() {
  local lines=()
  hpcdist_trial_table=${hpcdist[run_dir]:-$PWD}/${hpcdist[trials]} hpcdist_trial_names='' hpcdist_trial_row=''
  { IFS= read -r hpcdist_trial_names && mapfile -s "$((hpcdist_element - 1))" -n 1 lines; } 2>/dev/null <"$hpcdist_trial_table"
  hpcdist_trial_row=${lines[0]:-}
  [[ ! $hpcdist_trial_row =~ ^([0-9]+)$'\t' ]] || hpcdist_element=${BASH_REMATCH[1]}
}
# Sets hpcdist_trial to the texts of the row, by the names in the first line, and HPCDIST_TRIAL to its number. The program
# stands behind the params, and the variables behind it. A row that ends without a newline was cut short.
hpcdist_choose_trial() {
  local names=$hpcdist_trial_names row=$hpcdist_trial_row name value
  export HPCDIST_TRIAL=$hpcdist_element
  [[ $names ]] || hpcdist_fail "cannot read $hpcdist_trial_table, which has the trials of this job"
  [[ $row == "$HPCDIST_TRIAL"$'\t'*$'\n' ]] || hpcdist_fail "$hpcdist_trial_table has no trial for element $hpcdist_element"
  names+=$'\t' row=${row%$'\n'}$'\t' hpcdist_trial_variables=() hpcdist_trial_params=
  declare -gA hpcdist_trial=()
  while [[ $names && $row ]]; do
    name=${names%%$'\t'*} names=${names#*$'\t'}
    printf -v value %b "${row%%$'\t'*}" # it has \t, \n, \r and \\
    row=${row#*$'\t'}
    if [[ -v 'hpcdist_trial[:program]' ]]; then
      hpcdist_trial_variables+=("$name")
    elif [[ $name != :program ]]; then
      printf -v hpcdist_trial_params '%s %s=%q' "$hpcdist_trial_params" "$name" "$value"
    fi
    hpcdist_trial[$name]=$value
  done
  [[ ! $names$row && -v 'hpcdist_trial[:program]' ]] || hpcdist_fail "trial $HPCDIST_TRIAL in $hpcdist_trial_table is cut short"
}
trial_program() { write_program <<<"${hpcdist_trial[:program]}"; }
hpcdist_export_trial() {
  local name
  [[ ! ${hpcdist[stop_at]:-} ]] || export HPCDIST_STOP_AT=${hpcdist[stop_at]} # read by hpcdist_tracking
  [[ ! ${hpcdist[policies]:-} ]] || export HPCDIST_POLICIES=${hpcdist[policies]}
  for name in "${hpcdist_trial_variables[@]}"; do export "$name=${hpcdist_trial[$name]}"; done
}
# Of a later job of the run, the batch system's own file has another name: its trials may have run before.
hpcdist_open_trial_log() {
  local file=$HPCDIST_RUN_DIR/logs/job${hpcdist_element:+-$hpcdist_element}.out
  : >>"$file" || hpcdist_unwritten
  exec >>"$file" 2>&1
}
# Ends this script if no further trial is to start. Exit code 85 says that none did.
hpcdist_check_limits() {
  local why=
  if [[ -e $HPCDIST_RUN_DIR/stop ]]; then
    IFS= read -r why <"$HPCDIST_RUN_DIR/stop"
    why="the search was stopped${why:+ $why}"
  elif [[ ${hpcdist[max_failures]:-}${hpcdist[budget]:-} ]]; then
    why=$(hpcdist_over_limits "${hpcdist[budget]:-}") || hpcdist_fail "cannot read $HPCDIST_RUN_DIR/events, by which the limits of this search are kept"
  fi
  [[ ! $why ]] || { echo "hpcdist: trial $HPCDIST_TRIAL does not start: $why" >&2 && exit 85; }
}
# Prints why this trial, or job of packed trials, may not start within budget $1, by the event log, in which its own start
# stands already. Those that started before it and have not ended may take their whole cost, as it may itself: of two that
# start at once one comes first. What wrote no end counts as if it ran, unless the accounting had one when further jobs were
# submitted. A job of packed trials has its cost in a file.
hpcdist_over_limits() {
  local found
  if [[ ${hpcdist[packed]:-} ]] || compgen -G "$HPCDIST_RUN_DIR/events.*" >/dev/null; then
    found=$({ printf 'whole\n\n' && cat -- "$HPCDIST_RUN_DIR"/jobs/*/cost 2>/dev/null; sort -s -n -k 3,3 -- "$HPCDIST_RUN_DIR"/events*; } | hpcdist_apply_limits "$@") || return
  else
    found=$(hpcdist_read_log "$hpcdist_limits" | hpcdist_apply_limits "$@") || found=$(hpcdist_read_log '' | hpcdist_apply_limits "$@") || return
    [[ $found != *$'\n'whole ]] || hpcdist_write_limits "${found#*$'\n'}"
  fi
  printf %s "${found%%$'\n'*}"
}
# Ten thousand trials would read ten thousand lines each: so a trial writes what the log came to at its start, in lines like
# those of the log, to the file limits, and a later one reads only what follows. It is read before the own start is written,
# which it must not be behind. Any of several that write it will do, and none.
hpcdist_read_limits() {
  hpcdist_limits=
  [[ ! ${hpcdist[max_failures]:-}${hpcdist[budget]:-} ]] || IFS= read -r -d '' hpcdist_limits 2>/dev/null <"$HPCDIST_RUN_DIR/limits"
  [[ $hpcdist_limits == 'upto '[1-9]*$'\n'whole$'\n' ]] || hpcdist_limits=
}
hpcdist_write_limits() {
  { printf '%s\n' "$1" >"$HPCDIST_JOB_DIR/limits" && mv -f -- "$HPCDIST_JOB_DIR/limits" "$HPCDIST_RUN_DIR/limits"; } 2>/dev/null
}
# Prints what is kept as $1, and what follows it in the log, from the end of a line on.
hpcdist_read_log() {
  local from=${1%%$'\n'*}
  printf %s "${1:-$'whole\n\n'}" && tail -c "+$((${from#upto } + 0))" -- "$HPCDIST_RUN_DIR/events"
}
hpcdist_apply_limits() {
  LC_ALL=C awk -v me="$HPCDIST_JOB_ID" -v cost="${hpcdist[cost]:-0}" -v budget="${1:-0}" -v most="${hpcdist[max_failures]:-0}" \
    -v gpus="${hpcdist[trial_gpus]:-0}" -v packed="${hpcdist[packed]:-0}" '
    $1 == "whole" { whole = NR; next }
    whole && NR == whole + 1 { wrong = $0 != ""; next } # not the end of a line: the log is another one
    whole { place += length($0) + 1 }
    $1 == "upto" { place = upto = $2 }
    $1 == "spent" { spent = $2 }
    $1 == "failed" { failed[$2] = $3 }
    $1 == "cost" { gpus_of[$2] = $3; cost_of[$2] = $4; next }
    $1 == "resumed" { split("", failed) }
    $1 == "ended" && $2 ~ /_[0-9]+$/ {
      trial = substr($2, match($2, /[0-9]+$/))
      if ($4 == 0 || $4 == 85) delete failed[trial]; else failed[trial] = $4
    }
    !packed == ($2 !~ /_[0-9]+$/) { next } # a trial is no job
    $1 == "started" {
      if ($2 in start) spent += may_take($2)
      start[$2] = $3
      if (whole && $2 == me) { split("", before); for (id in start) before[id]; kept = state() }
    }
    $1 ~ /^(ended|requeued|accounted)$/ && $2 in start {
      spent += ($2 in gpus_of ? gpus_of[$2] : gpus) * ($3 - start[$2])
      delete start[$2]
    }
    function may_take(id) { return id in cost_of ? cost_of[id] : cost }
    function state(  text, id) {
      text = sprintf("upto %.0f\nspent %.3f\n", place, spent)
      for (id in start) text = text "started " id " " start[id] " 0\n"
      for (id in failed) text = text "failed " id " " failed[id] "\n"
      return text "whole"
    }
    END {
      if (wrong || upto && !kept) exit 3
      for (id in before) if (id in start) { live++; taking += may_take(id) }
      for (trial in failed) failures++
      if (most && failures >= most) printf "%d trials have failed, and max_failures is %d", failures, most
      else if (budget && spent + taking > budget)
        printf "%.4g GPU-hours are spent, %d %s that run may take %.4g, and the budget is %.4g", \
          spent / 3600, live, packed ? "jobs" : "trials", taking / 3600, budget / 3600
      printf "\n%s", kept
    }'
}
