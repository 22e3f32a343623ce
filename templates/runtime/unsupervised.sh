# Runs a script, $1, where there is no Python 3.6: its start and its end alone are recorded. One that needs more, $2, does not begin.
fail() { echo "hpcdist: $*" >&2; exit 86; }
[[ ! $2 ]] || fail "there is no Python 3.6 or newer on $(uname -n), which this job needs for its $2; set HPCDIST_PYTHON to one"
echo "hpcdist: there is no Python 3.6 or newer on $(uname -n); without one, causes of failures and usage are not recorded" >&2
id=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${FLUX_ENCLOSING_ID:-${JOB_ID:-$$}}}}}}
element=${SLURM_ARRAY_TASK_ID:-${LSB_JOBINDEX#0}}
export HPCDIST_JOB_ID=$id${element:+_$element}
log() { printf '%s %s %(%s)T %s\n' "$1" "$HPCDIST_JOB_ID" -1 "$2" >>"$HPCDIST_RUN_DIR/events"; }
log started 0 || fail "cannot write to $HPCDIST_RUN_DIR; is the disk full, or your quota used up?"
exec 4<> <(:) # where its end is told: bash may lose an exit code when a signal comes
trap : TERM HUP USR1 USR2
(
  trap : TERM HUP USR1 USR2 # the script gets them, too
  HPCDIST_SUPERVISED="$HPCDIST_RUN_DIR $BASHPID" bash "$HPCDIST_RUN_DIR/$1" 4>&-
  echo "$?" >&4
) <&0 &
started=$!
# shellcheck disable=SC2329 # the traps call it
pass_on() {
  local program
  read -r program <"/proc/$started/task/$started/children" # which ends without a newline
  kill -s "$1" "${program% }"
} 2>/dev/null
trap 'pass_on TERM' TERM
trap 'pass_on HUP' HUP
trap 'pass_on USR1' USR1
trap 'pass_on USR2' USR2
while kill -0 "$started" 2>/dev/null; do wait "$started"; done
echo 1 >&4 # the end of one that was killed, and could not tell
read -r code <&4
log ended "$code" || echo "hpcdist: the end (exit code $code) cannot be written; is the disk full?" >&2
exit "$code"
