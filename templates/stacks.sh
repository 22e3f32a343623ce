# Prints what the ranks of a job do on this node: bash -c TEXT hpcdist JOB_DIR PY_SPY OPTION... (PY_SPY: where it is here;
# the options are its own). Lines of at most 1000 characters, as srun splits longer ones: the node, and a part of a packed text.

# Sets what process $1 is: the task, the rank of the program, and where that is from.
hpcdist_rank_of() {
  local entry other='' elastic='' rank=''
  hpcdist_task=- hpcdist_rank=-
  while IFS= read -r entry; do
    case $entry in
    HPCDIST_RANK=*) hpcdist_task=${entry#*=} ;;
    TORCHELASTIC_RUN_ID=*) elastic=1 ;;
    RANK=*) rank=${entry#*=} ;;
    HOROVOD_RANK=* | OMPI_COMM_WORLD_RANK=* | PMIX_RANK=* | PMI_RANK=*) other=${entry#*=} ;;
    esac
  done < <(tr '\0' '\n' <"/proc/$1/environ")
  hpcdist_rank=${elastic:+${rank:--}} # torchrun starts several ranks in a task
  [[ $hpcdist_rank ]] || { hpcdist_rank=$hpcdist_task && [[ $hpcdist_task != - ]]; } || hpcdist_rank=${other:--}
  hpcdist_elastic=${elastic:-0}
}
hpcdist_is_python() {
  local program
  program=$(readlink "/proc/$1/exe")
  [[ ${program##*/} == python* ]] || grep -qs libpython "/proc/$1/maps"
}
hpcdist_dump() { timeout 60 "$hpcdist_py_spy" dump --json --pid "$@" >"$hpcdist_folder/$hpcdist_pid.json" 2>"$hpcdist_folder/$hpcdist_pid.error"; }
hpcdist_find_py_spy() {
  local program
  [[ ! -x $hpcdist_py_spy ]] || return
  program=$(type -P py-spy) || program=$(PATH=$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^PATH=//p') && type -P py-spy)
  hpcdist_py_spy=$program
}
# A line of each process: its rank, what it does as the kernel sees it, and then what Python does.
hpcdist_print_process() {
  local text
  hpcdist_rank_of "$1"
  read -r text <"/proc/$1/stat" || return
  read -r -a text <<<"${text##*) }"
  printf 'process %s %s %s %s %s %s %s %s\n' "$hpcdist_task" "$hpcdist_rank" "$hpcdist_elastic" "$1" "${text[1]}" "${text[0]}" \
    "$(tr -d '\0' <"/proc/$1/wchan" || echo 0)" "$(tr '\n' ' ' <"/proc/$1/comm")"
  if [[ -s $hpcdist_folder/$1.json ]]; then
    echo "stacks $(tr -d '\n' <"$hpcdist_folder/$1.json")"
  elif [[ -e $hpcdist_folder/$1.error ]]; then
    echo "error $(tr -s '\n' ' ' <"$hpcdist_folder/$1.error" | cut -c 1-200)"
  fi
}
hpcdist_print_all() {
  local hpcdist_pid pids=() count=0
  mapfile -t pids < <(hpcdist_processes "$1" HPCDIST_JOB_DIR=)
  for hpcdist_pid in "${pids[@]}"; do
    hpcdist_is_python "$hpcdist_pid" || continue
    hpcdist_find_py_spy "$hpcdist_pid"
    [[ $hpcdist_py_spy ]] || { echo missing && break; }
    hpcdist_dump "$hpcdist_pid" "${@:2}" &
    ((++count % 8)) || wait
  done
  wait
  for hpcdist_pid in "${pids[@]}"; do hpcdist_print_process "$hpcdist_pid"; done
}

hpcdist_folder=$(mktemp -d) || exit
trap '[[ $BASHPID != "$$" ]] || rm -rf -- "$hpcdist_folder"' EXIT # a subshell that gets TERM may run it
hpcdist_job=$1 hpcdist_py_spy=$2
shift 2
hpcdist_print_all "$hpcdist_job" "$@" 2>/dev/null | gzip -c | base64 -w 800 | sed "s|^|${SLURMD_NODENAME:-$(uname -n)} |"
