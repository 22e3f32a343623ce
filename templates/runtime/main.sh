# --- What happens, in order

main() {
  trap - EXIT # the one of an unfinished script
  hpcdist_nodes=() hpcdist_address=
  "allocation_${hpcdist[scheduler]}"
  open_run
  trap_signals
  check_nodes
  choose_address
  write_files
  readonly -f program environment launch
  ! declare -F setup >/dev/null || run_setup
  call_if_there "begin_${hpcdist[scheduler]}"
  run_all
  exit "$hpcdist_status"
}
call_if_there() { ! declare -F "$1" >/dev/null || "$@"; }

fail() {
  echo "hpcdist: $*" >&2
  exit 86
}
unwritten() { fail "cannot write to $HPCDIST_RUN_DIR or ${TMPDIR:-/tmp} on $(uname -n); is the disk full, or your quota used up?"; }
log_event() { printf '%s %s %(%s)T %s\n' "$1" "$HPCDIST_JOB_ID" -1 "$2" >>"$HPCDIST_RUN_DIR/events"; }

# Writes text $2 to file $1 of this job, and reads it back: a full disk may have cut it short. What an earlier start of
# this job wrote may still be read: a file that is whole is then moved into its place.
write_file() {
  local file=$HPCDIST_JOB_DIR/$1 written=
  if [[ -e $file ]]; then
    file=$HPCDIST_JOB_DIR/new/$1
    mkdir -p "$HPCDIST_JOB_DIR/new" || unwritten
  fi
  printf %s "$2" >"$file" && IFS= read -r -d '' written <"$file"
  [[ $written == "$2" ]] || unwritten
}
move_files() { [[ ! -e $HPCDIST_JOB_DIR/new ]] || { mv -f -- "$HPCDIST_JOB_DIR"/new/* "$HPCDIST_JOB_DIR" && rmdir "$HPCDIST_JOB_DIR/new"; } || unwritten; }
