# --- What happens, in order

main() {
  trap - EXIT # the one of an unfinished script
  hpcdist_reset_shell
  # Variables of these names may come from the login shell, or from an hpcdist job that submitted this one.
  unset hpcdist_status hpcdist_program hpcdist_try hpcdist_told_to_end hpcdist_got_term hpcdist_at_limit hpcdist_late hpcdist_clock hpcdist_end hpcdist_again hpcdist_ended_by hpcdist_files hpcdist_trial_params HPCDIST_HOSTFILE HPCDIST_ENDED HPCDIST_ATTEMPT HPCDIST_RESUMED
  declare -p hpcdist_steps >/dev/null 2>&1 || hpcdist_steps=()
  hpcdist_nodes=() hpcdist_changed=() hpcdist_address='' hpcdist_setup='' hpcdist_over=''
  "allocation_${hpcdist[scheduler]}"
  [[ ! ${hpcdist[trials]:-} || ${hpcdist[packed]:-} ]] || hpcdist_find_trial
  hpcdist_open_run
  [[ ! ${hpcdist[packed]:-} ]] || hpcdist_begin_packed
  [[ ! ${hpcdist[trials]:-} || ${hpcdist[packed]:-} ]] || { hpcdist_choose_trial && hpcdist_check_limits; }
  hpcdist_trap_signals
  hpcdist_check_nodes
  hpcdist_choose_address
  hpcdist_write_files
  ! declare -F setup >/dev/null || hpcdist_begin_setup
}
# Between the two, in no function, as what they declare would be local to it, come the lines of setup.
hpcdist_finish_main() {
  [[ ! $hpcdist_setup ]] || hpcdist_end_setup
  hpcdist_call_if_there "begin_${hpcdist[scheduler]}"
  if [[ ! ${hpcdist[restart]:-} || ${hpcdist[packed]:-} ]] || hpcdist_may_begin; then
    ! hpcdist_prepare || hpcdist_run_beside
    hpcdist_clean_up
  elif hpcdist_was_finishing; then
    hpcdist_clean_up
  fi
  [[ ${hpcdist[restart]:-} != follow || ! $hpcdist_over ]] || hpcdist_cancel_followers
  hpcdist_call_if_there "exit_${hpcdist[scheduler]}"
  [[ ! ${hpcdist_again:-} ]] || hpcdist_requeue
  exit "$hpcdist_status"
}
# Ends what the login shell, or a line of setup, may have set, and under which this script would mean something else.
hpcdist_reset_shell() {
  set +Cefkmu +o pipefail +o posix
  shopt -u failglob nocasematch nullglob xpg_echo
  IFS=$' \t\n'
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
