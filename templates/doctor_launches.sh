# The launches of the doctor: the first one checks the tasks, one runs a benchmark that is installed, and one is for each
# line of `launches`: its number, and variables. MPI starts only once in a task, and reads its variables as it starts.
launch_part() { # a launcher takes the place of its shell
  "$@" 9<&- &
  part=$!
  # shellcheck disable=SC2064 # the process is the present one
  trap "kill -TERM $part 2>/dev/null" TERM
  wait "$part"
}
launch_again() {
  for setting in "HPCDIST_LAUNCH=$1" "${@:2}"; do
    export "${setting?}"
    case $(declare -p exports 2>/dev/null) in # what mpirun passes on
    "declare -a "*) exports+=(-x "${setting%%=*}") ;;
    "declare -- "*) exports+=,${setting%%=*} ;;
    esac
  done
  launch
}
launch_part launch || exit
if [[ $(type -P all_reduce_perf osu_allreduce) ]]; then launch_part launch_again tool; fi
while IFS=$'\t' read -r -a words <&9; do launch_part launch_again "${words[@]}" || :; done 9<"$HPCDIST_RUN_DIR/launches"
