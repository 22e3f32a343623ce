# --- The trial of a search that this element of the array runs: a row of trials.tsv, which has one for each

# Sets hpcdist_trial to the texts of the row, by the names in its first line, and HPCDIST_TRIAL to its number. The program
# stands behind the params, and the variables behind it. A row that ends without a newline was cut short.
hpcdist_choose_trial() {
  local file=${hpcdist[run_dir]:-$PWD}/trials.tsv names lines=() row name value
  export HPCDIST_TRIAL=$hpcdist_element
  { IFS= read -r names && mapfile -s "$((HPCDIST_TRIAL - 1))" -n 1 lines; } <"$file" ||
    hpcdist_fail "cannot read $file, which has the trials of this job"
  [[ ${lines[0]:-} == "$HPCDIST_TRIAL"$'\t'*$'\n' ]] || hpcdist_fail "$file has no trial $HPCDIST_TRIAL"
  names+=$'\t' row=${lines[0]%$'\n'}$'\t' hpcdist_trial_variables=() hpcdist_trial_params=
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
  [[ ! $names$row && -v 'hpcdist_trial[:program]' ]] || hpcdist_fail "trial $HPCDIST_TRIAL in $file is cut short"
}
trial_program() { write_program <<<"${hpcdist_trial[:program]}"; }
hpcdist_export_trial() {
  local name
  for name in "${hpcdist_trial_variables[@]}"; do export "$name=${hpcdist_trial[$name]}"; done
}
