# --- Progress: what an attempt left that the ones before had not

# Sets hpcdist_idle: how many attempts in a row, this one the last, left nothing new. One that a more important job ended may have
# had no time for it.
hpcdist_count_idle() {
  local file=$hpcdist_attempts/$HPCDIST_ATTEMPT before=0
  ! read -r hpcdist_idle 2>/dev/null <"$file.idle" || return 0 # counted before the job was put into the queue again
  ((HPCDIST_ATTEMPT == hpcdist_first)) || read -r before 2>/dev/null <"$hpcdist_attempts/$((HPCDIST_ATTEMPT - 1)).idle"
  hpcdist_idle=0
  if ! hpcdist_made_progress; then
    hpcdist_idle=$before
    [[ $hpcdist_why == preempt ]] || hpcdist_idle=$((before + 1))
  fi
  echo "$hpcdist_idle" >"$file.idle"
}
# Where the program tracks metrics by steps, one must have got further: files may be the same again, as logs and what is
# saved after a failure are. Else there must be a new checkpoint; where there is none at all, a new file in the outputs.
hpcdist_made_progress() {
  local code=0
  hpcdist_count_steps || code=$?
  ((code == 2)) || return "$code"
  hpcdist_choose_files
  [[ $(find "$hpcdist_kept" -type f -newer "$hpcdist_attempts/$HPCDIST_ATTEMPT" -print -quit) ]]
}
hpcdist_choose_files() {
  hpcdist_kept=$HPCDIST_CHECKPOINTS
  [[ $(find "$HPCDIST_CHECKPOINTS" -type f -print -quit) ]] || hpcdist_kept=$HPCDIST_OUTPUTS
}
hpcdist_what_lacks() {
  if [[ -s $hpcdist_attempts/$HPCDIST_ATTEMPT.steps ]]; then
    echo "tracked no step that an earlier one had not reached"
  else
    hpcdist_choose_files
    echo "left nothing new in $hpcdist_kept"
  fi
}
# Writes attempts/N.steps: the highest step of each metric so far, and its name. Returns 1 if none got further, 2 if none is
# tracked by steps.
hpcdist_count_steps() {
  local before=$hpcdist_attempts/$((HPCDIST_ATTEMPT - 1)).steps text code=0
  [[ -e $before ]] || before=/dev/null
  text=$({ cat "$before" && echo && hpcdist_new_steps; } | awk '
    !NF { is_new = 1; next }
    { step = $1; sub(/^[^ ]+ /, "") }
    !($0 in most) || step + 0 > most[$0] + 0 { most[$0] = step; further += is_new }
    END { for (name in most) { print most[name], name; found = 1 } exit found ? !further : 2 }') || code=$?
  [[ ! $text ]] || echo "$text" >"$hpcdist_attempts/$HPCDIST_ATTEMPT.steps"
  return "$code"
}
# Prints the highest step of each metric in the files that are newer than the attempt: of hpcdist_tracking, in whose lines
# the first metric counts, and of the client of Polyaxon.
hpcdist_new_steps() {
  find "$HPCDIST_RUN_DIR"/tracking/*"${hpcdist_element:+_$hpcdist_element}"/ -type f -newer "$hpcdist_attempts/$HPCDIST_ATTEMPT" \
    \( -name 'rank-*.jsonl' -o -path '*/polyaxon-*.plx' \) -exec awk '
    function add(step, name) { if (!(name in most) || step + 0 > most[name] + 0) most[name] = step }
    FILENAME ~ /[.]plx$/ {
      name = FILENAME
      sub(/.*\//, "", name)
      if (split($0, parts, "|") == 3 && parts[1] != "") add(parts[1], name)
      next
    }
    /^[{]"metrics":[{]"/ && match($0, /[}],"step":-?[0-9][0-9.e+-]*,"at":[0-9.]*[}]$/) {
      step = substr($0, RSTART + 9)
      sub(/,.*/, "", step)
      sub(/^[{]"metrics":[{]"/, "")
      match($0, /^([^"\\]|\\.)*/) # a name may have a quote in it
      add(step, substr($0, 1, RLENGTH))
    }
    END { for (name in most) print most[name], name }' {} + 2>/dev/null
}
