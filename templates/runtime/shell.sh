# --- A shell, or a command of the user's, in place of the program: on the first node, with the keys of the terminal

hpcdist_run_shell() {
  local hpcdist_terminal=
  [[ ! -t 0 ]] || hpcdist_terminal=1
  hpcdist_try=0 hpcdist_program=none
  hpcdist_begin_attempt
  export HPCDIST_TRACKING="$HPCDIST_RUN_DIR/tracking/$HPCDIST_JOB_ID/$hpcdist_restarts.0"
  hpcdist_write_shell
  trap : INT QUIT
  (
    environment
    hpcdist_add_modules
    hpcdist_set_polyaxon 0
    hpcdist_shell=(bash)
    [[ ! $hpcdist_terminal ]] || hpcdist_shell=(bash --rcfile "$HPCDIST_JOB_DIR/shell.rc" -i)
    if [[ ${hpcdist[shell]} != container ]]; then
      [[ ! $hpcdist_terminal ]] || echo "hpcdist: \`launch\` starts the program on all nodes, \`launch COMMAND...\` another one; the end of this shell ends the job"
      # shellcheck disable=SC2120 # the user passes some
      launch() { bash "$HPCDIST_JOB_DIR/launch.sh" "$@"; }
      export -f launch
    fi
    shell
  )
  hpcdist_status=$?
  # Whoever holds the allocation may be gone with the terminal.
  [[ ! $hpcdist_terminal || -t 0 ]] || hpcdist_abandoned=1
}
# The user's own file may set what the job has set: that counts. It is kept in memory, as it may hold secrets.
# shellcheck disable=SC2016 # the shell expands it
hpcdist_write_shell() {
  local text
  hpcdist_write_file shell.rc 'hpcdist_kept=$(export -p)
[[ ! -r ~/.bashrc ]] || . ~/.bashrc
eval "$hpcdist_kept"
unset hpcdist_kept
'
  text=$(
    unset hpcdist_before hpcdist_terminal
    declare -p hpcdist "${!hpcdist_@}"
    declare -f
  )
  hpcdist_write_file launch.sh "$text"$'\nhpcdist_launch "$@"\n'
  hpcdist_move_files
}
# Runs in a shell of its own, launch.sh: starts the program, or the words of another one, as the job would.
hpcdist_launch() {
  hpcdist_reset_shell
  until mkdir "$HPCDIST_JOB_DIR/launch.$((++hpcdist_try))" 2>/dev/null; do ((hpcdist_try < 10000)) || hpcdist_unwritten; done
  if (($#)); then
    printf -v hpcdist_words '%q ' "$@"
    program() { write_program <<<"$hpcdist_words"; }
  fi
  hpcdist_write_files
  hpcdist_trap_signals
  hpcdist_run "$hpcdist_try"
}
