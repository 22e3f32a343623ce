# Runs a command beside the tasks of a job, on one of its nodes, in the environment of the job's processes there:
# bash -c TEXT hpcdist JOB_DIR RANK WORD... (RANK is empty for the first task there, or the first process of the job).

# Takes on the variables of process $1. An MPI program must not take itself for the task: what its launcher has set for
# MPI is left out. Nothing of it is on a command line, which everybody on the node could read.
hpcdist_take_environment() {
  local hpcdist_entry hpcdist_term=${TERM:-}
  # shellcheck disable=SC2046 # these are words
  unset $(compgen -e) 2>/dev/null
  while IFS= read -r -d '' hpcdist_entry; do
    [[ $hpcdist_entry =~ ^[A-Za-z_][A-Za-z0-9_]*= && $hpcdist_entry != @(PMI|PMI2|PMIX)_* ]] || continue
    export "${hpcdist_entry?}"
  done <"/proc/$1/environ"
  [[ ! $hpcdist_term ]] || export TERM=$hpcdist_term
} 2>/dev/null
# Sets hpcdist_enter to the words that enter the container of process $1, if it is in one.
hpcdist_find_container() {
  local program
  hpcdist_enter=()
  [[ ! /proc/$1/ns/mnt -ef /proc/self/ns/mnt && -e /proc/$1/ns/mnt ]] || return 0
  if [[ ! /proc/$1/ns/user -ef /proc/self/ns/user ]] && program=$(type -P nsenter); then
    hpcdist_enter=("$program" --target "$1" --user --mount --root --wd --preserve-credentials --)
  else
    echo "hpcdist: the container of process $1 cannot be entered; the command runs outside it" >&2
  fi
}

mapfile -t hpcdist_pids < <(hpcdist_processes "$1" "HPCDIST_RANK=${2:+$2\$}")
[[ $2 || ${hpcdist_pids[*]} ]] || mapfile -t hpcdist_pids < <(hpcdist_processes "$1" HPCDIST_JOB_DIR=)
if ((${#hpcdist_pids[@]})); then
  hpcdist_find_container "${hpcdist_pids[0]}"
  hpcdist_folder=$(readlink "/proc/${hpcdist_pids[0]}/cwd")
  hpcdist_take_environment "${hpcdist_pids[0]}"
  ((${#hpcdist_enter[@]})) || cd -- "$hpcdist_folder" 2>/dev/null || echo "hpcdist: there is no $hpcdist_folder here" >&2
elif [[ $2 ]]; then
  echo "hpcdist: rank $2 has no process on $(uname -n): it has not begun yet, or has ended" >&2
  exit 86
fi
export HPCDIST_PIDS="${hpcdist_pids[*]}"
shift 2
exec "${hpcdist_enter[@]}" "$@"
