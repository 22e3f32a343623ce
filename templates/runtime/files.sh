# --- The files of the job: its nodes, its program, its task wrapper

hpcdist_write_files() {
  local text again=
  ((${hpcdist_try:-0} == 0)) || again=.$hpcdist_try
  printf -v text '%s\n' "${hpcdist_nodes[@]}"
  hpcdist_write_file nodes "$text"
  hpcdist_write_file "nodes.$hpcdist_restarts$again" "$text" # which no later start or attempt replaces
  [[ ! ${hpcdist[hostfile]:-} ]] || hpcdist_write_hostfile
  program || hpcdist_unwritten
  hpcdist_write_modules
  [[ ${hpcdist[mode]} != tasks ]] || hpcdist_write_task
  hpcdist_move_files
}
# The hosts with their number of tasks, in rank order, as the launcher reads them.
hpcdist_write_hostfile() {
  local node=0 line text=
  export HPCDIST_HOSTFILE=$HPCDIST_JOB_DIR/hostfile
  hpcdist_count_tasks
  for ((; node < hpcdist[nodes]; node++)); do
    # shellcheck disable=SC2059 # the format is the launcher's
    printf -v line "${hpcdist[hostfile]}" "${hpcdist_nodes[node]}" "${hpcdist_on[node]}"
    text+=$line$'\n'
  done
  hpcdist_write_file hostfile "$text"
}
# Sets hpcdist_on to the number of tasks on each node, which the plan writes as Slurm does: 4(x2),3.
hpcdist_count_tasks() {
  local item count
  hpcdist_on=()
  for item in ${hpcdist[tasks_per_node]//,/ }; do
    hpcdist_read_count "$item"
    for ((count = ${BASH_REMATCH[3]:-1}; count > 0; count--)); do hpcdist_on+=("${BASH_REMATCH[1]}"); done
  done
}
# Sets BASH_REMATCH[1] to the tasks of 4(x2), and BASH_REMATCH[3] to its number of nodes, if there are several.
hpcdist_read_count() { [[ $1 =~ ^([0-9]+)(\(x([0-9]+)\))?$ ]]; }
# Writes the command, which it reads from stdin. On a signal its shell waits for the running program, and then runs
# nothing more. A command with hpcdist_start_processes in it gets a launcher such as torchrun as its arguments, which starts
# there, in the environment that the lines before have set up, and without arguments in each of the processes.
write_program() {
  local text
  IFS= read -r -d '' text
  # shellcheck disable=SC2016 # the command expands it
  [[ $text != *hpcdist_start_processes* ]] ||
    text='hpcdist_words=("$@") hpcdist_folder=$PWD
set --
hpcdist_start_processes() {
  ((${#hpcdist_words[@]})) || return 0
  type "${hpcdist_words[0]}" >/dev/null 2>&1 ||
    { echo "hpcdist: there is no ${hpcdist_words[0]} on $(uname -n), in the environment of the first lines of the command" >&2 && exit 86; }
  cd -- "$hpcdist_folder" && exec "${hpcdist_words[@]}"
}
'$text
  text=$'trap \'exit $(($? ? $? : 143))\' TERM INT HUP\ntrap : USR1 USR2\n'$text
  hpcdist_size_of "$text"
  hpcdist_program_size=$hpcdist_size
  hpcdist_write_file command.sh "$text"
}
# The task wrapper, the same for all tasks, and the words that start it on each node, where the run directory may be
# missing. (srun returns the highest exit code of all tasks, but prefers a signal's: the TERM that follows must kill none.)
hpcdist_write_task() {
  local text start
  text=$(hpcdist_task_text) || hpcdist_unwritten # an empty one would end well
  text+=$'\n'
  hpcdist_write_file task.sh "$text"
  hpcdist_size_of "$text"
  # shellcheck disable=SC2016 # the task expands it
  start='trap hpcdist_ended_by=TERM TERM; hpcdist_is_whole() { local LC_ALL=C text; IFS= read -rd "" text <"$1"; [[ -O $1 ]] && ((${#text} == $2)); } 2>/dev/null; for hpcdist_file in "$0 TASK_SIZE" "${0%/*}/command.sh PROGRAM_SIZE"; do hpcdist_is_whole "${hpcdist_file% *}" "${hpcdist_file##* }" || { echo "hpcdist: rank ${RANK:-none} on $(uname -n): ${hpcdist_file% *} is missing, cut short or not your own; does this node share its file system, and is the disk full?" >&2; sleep 2; exit 186; }; done; . "$0"'
  start=${start/TASK_SIZE/$hpcdist_size}
  start=${start/PROGRAM_SIZE/$hpcdist_program_size}
  hpcdist_task=(bash -c "${start/RANK/${hpcdist[rank]}}" "$HPCDIST_JOB_DIR/task.sh")
}
# shellcheck disable=SC2016 # the task expands it
hpcdist_task_text() {
  local functions=(hpcdist_reset_shell hpcdist_begin_task hpcdist_add_modules hpcdist_set_polyaxon hpcdist_begin_task_setup
    hpcdist_end_unprepared hpcdist_end_task_setup hpcdist_run_task hpcdist_trap_task_signals hpcdist_is_signalled_alone hpcdist_hear
    hpcdist_pass_on hpcdist_below hpcdist_become hpcdist_run_signalled hpcdist_wait_for_program hpcdist_is_forgotten hpcdist_label task_environment hpcdist_fail_task hpcdist_first_to_fail
    hpcdist_set_task_env hpcdist_read_count hpcdist_set_address hpcdist_take_gpus peers hpcdist_count_oom_kills "${hpcdist_of_usage[@]}"
    "${hpcdist_of_faults[@]}")
  local runs=hpcdist_run_task
  [[ ! ${hpcdist[packed]:-} ]] || runs=hpcdist_run_worker functions+=("${hpcdist_of_workers[@]}")
  printf '%s\n' '#!/bin/bash' 'set +Cefkmu +o pipefail +o posix'
  declare -p hpcdist hpcdist_tasks
  [[ ! ${hpcdist[packed]:-} ]] || declare -p hpcdist_job hpcdist_element hpcdist_restarts
  declare -f "${functions[@]}"
  printf '%s\n' hpcdist_reset_shell hpcdist_begin_task
  if declare -F task_setup >/dev/null; then
    # A file that these lines source would get the program as its arguments, and may define functions of these names.
    printf '%s\n' 'hpcdist_words=("$@")' 'set --' hpcdist_begin_task_setup
    hpcdist_lines_of task_setup
    echo 'set +eu +o posix'
    declare -f "${functions[@]}"
    printf '%s\n' hpcdist_end_task_setup 'set -- "${hpcdist_words[@]}"'
  fi
  printf '%s\n' 'hpcdist_begin_gpu_usage $$' "$runs"' "$@"'
}
# Writes module $1 of Python with text $2, unless an earlier start or another element of an array has. Only who creates the
# file writes into it. Others read it first: one that is not whole, as it is being written or was cut short, is left as it
# is, and a whole one moved into its place. So no program begins before there is a whole one, nor sees it change.
hpcdist_write_module() {
  local file=$HPCDIST_RUN_DIR/python/$1 written=
  if [[ ! -e $file ]]; then
    set -C
    { printf %s "$2" >"$file"; } 2>/dev/null
    set +C
  fi
  [[ ! -f $file ]] || IFS= read -r -d '' written <"$file"
  [[ $written != "$2" ]] || return 0
  hpcdist_write_file module "$2"
  hpcdist_move_files
  mv -f -- "$HPCDIST_JOB_DIR/module" "$file" || hpcdist_unwritten
}
# The program finds these modules behind its own.
hpcdist_add_modules() {
  [[ :${PYTHONPATH:-}: == *":$HPCDIST_RUN_DIR/python:"* ]] || export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$HPCDIST_RUN_DIR/python
}
# The client of Polyaxon 1 and 2 then records in files, without a server: one folder a rank, as each rewrites its own. Its
# run needs a UUID: the digits of the job's id.
hpcdist_set_polyaxon() {
  local id
  [[ ! ${POLYAXON_HOST:-} && ${POLYAXON_OFFLINE_ROOT:-$HPCDIST_TRACKING} == "$HPCDIST_TRACKING"* ]] || return 0
  printf -v id '%32s' "${HPCDIST_JOB_ID//[!0-9]/}"
  export POLYAXON_IS_OFFLINE=true POLYAXON_IS_MANAGED=true POLYAXON_OFFLINE_ROOT=$HPCDIST_TRACKING/polyaxon-$1
  export POLYAXON_RUN_INSTANCE=${POLYAXON_RUN_INSTANCE:-hpcdist.hpcdist.runs.${id// /0}}
}
# Sets hpcdist_size to the number of bytes of a text.
hpcdist_size_of() {
  local LC_ALL=C
  hpcdist_size=${#1}
}
