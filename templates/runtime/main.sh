# --- What happens, in order

main() {
  trap - EXIT # the one of an unfinished script
  hpcdist_nodes=() hpcdist_address=
  "allocation_${hpcdist[scheduler]}"
  hpcdist_open_run
  hpcdist_trap_signals
  hpcdist_check_nodes
  hpcdist_choose_address
  hpcdist_write_files
  ! declare -F setup >/dev/null || hpcdist_run_setup
  hpcdist_call_if_there "begin_${hpcdist[scheduler]}"
  hpcdist_run_all
  exit "$hpcdist_status"
}
hpcdist_call_if_there() { ! declare -F "$1" >/dev/null || "$@"; }

hpcdist_fail() {
  echo "hpcdist: $*" >&2
  exit 86
}
fail() { hpcdist_fail "$@"; } # for the lines of setup()
hpcdist_unwritten() { hpcdist_fail "cannot write to $HPCDIST_RUN_DIR or ${TMPDIR:-/tmp} on $(uname -n); is the disk full, or your quota used up?"; }
hpcdist_log_event() { printf '%s %s %(%s)T %s\n' "$1" "$HPCDIST_JOB_ID" -1 "$2" >>"$HPCDIST_RUN_DIR/events"; }

# Writes text $2 to file $1 of this job, and reads it back: a full disk may have cut it short. What an earlier start of
# this job wrote may still be read: a file that is whole is then moved into its place.
hpcdist_write_file() {
  local file=$HPCDIST_JOB_DIR/$1 written=
  if [[ -e $file ]]; then
    file=$HPCDIST_JOB_DIR/new/$1
    mkdir -p "$HPCDIST_JOB_DIR/new" || hpcdist_unwritten
  fi
  printf %s "$2" >"$file" && IFS= read -r -d '' written <"$file"
  [[ $written == "$2" ]] || hpcdist_unwritten
}
hpcdist_move_files() { [[ ! -e $HPCDIST_JOB_DIR/new ]] || { mv -f -- "$HPCDIST_JOB_DIR"/new/* "$HPCDIST_JOB_DIR" && rmdir "$HPCDIST_JOB_DIR/new"; } || hpcdist_unwritten; }
