# The launches of the doctor: the first one checks the tasks, and each line of `launches` is one more, with its number, a
# seed, and the variables in which it differs. MPI starts only once in a task, and reads its variables as it starts.
launch() {
  local code=0 line words
  launch_part launch_once || code=$?
  while ((code == 0)) && IFS= read -r line <&9; do
    IFS=$'\t' read -r -a words <<<"$line"
    launch_part launch_again "${words[@]}"
  done 9<"$HPCDIST_RUN_DIR/launches"
  return "$code"
}
# Runs it in a subshell, which a launcher may replace; 9 is the file of the launches.
launch_part() {
  local part
  "$@" 9<&- &
  part=$!
  # shellcheck disable=SC2064 # the process is that of now
  trap "kill -TERM $part 2>/dev/null" TERM
  wait "$part"
}
launch_again() {
  local setting
  export HPCDIST_LAUNCH=$1 HPCDIST_SEED=$2 HPCDIST_FAILURE=$HPCDIST_FAILURE.$1 # which fails nothing
  for setting in "${@:3}"; do
    export "${setting?}"
    hpcdist_changed+=("${setting%%=*}") # what mpirun passes on
  done
  hpcdist_call_if_there "prepare_${hpcdist[launcher]}"
  launch_once
}
