# --- What launchers need: prepare_LAUNCHER runs in the shell that then runs launch()

# Sets hpcdist_names to the variables that tasks on other nodes need: those of environment(), which are all that it
# exports where nothing else is, and those that setup() changed.
hpcdist_name_variables() {
  local name
  # shellcheck disable=SC2046 # these are words
  mapfile -t hpcdist_names < <(
    export -n $(compgen -e)
    environment >/dev/null
    compgen -e
  )
  for name in PATH LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV "${!HPCDIST_@}" "${hpcdist_changed[@]}"; do
    [[ ! -v $name || $name == HPCDIST_TOKEN ]] || hpcdist_names+=("$name")
  done
}
prepare_mpirun() {
  local name
  prepare_once
  # It passes to remote tasks only variables that are named, and MCA parameters, which Open MPI 5 refuses by name.
  hpcdist_name_variables
  hpcdist_exports=()
  for name in "${hpcdist_names[@]}"; do
    [[ $name == @(OMPI|PRTE)_MCA_* ]] || hpcdist_exports+=(-x "$name")
  done
}
prepare_once() {
  # Open MPI refuses to run as root unless both are set.
  ((EUID != 0)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}
prepare_hydra() {
  # Intel MPI would place tasks by the scheduler's layout, or the login shell's, and bind each to a part of a node.
  unset I_MPI_PERHOST
  export I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=off I_MPI_PIN=${I_MPI_PIN:-off}
  # Remote tasks get the variables that are named here.
  hpcdist_name_variables
  printf -v hpcdist_exports ',%s' I_MPI_PIN "${hpcdist_names[@]}"
}
# Variables of PALS from the login shell would override this script, except for its command-line options.
prepare_pals() { unset PALS_ENVLIST PALS_HOSTLIST PALS_PATH PALS_SOFT PALS_WDIR; }

# One host a task, in rank order, for each component whose nodes hold different numbers of tasks: what
# srun --distribution=arbitrary reads.
prepare_srun() {
  local item number=0 node=0 slot text
  [[ ${hpcdist[uneven]:-} ]] || return 0
  hpcdist_count_tasks
  for item in ${hpcdist[components]:-${hpcdist[nodes]}}; do
    text=
    for ((item += node; node < item; node++)); do
      for ((slot = 0; slot < hpcdist_on[node]; slot++)); do text+=${hpcdist_nodes[node]}$'\n'; done
    done
    [[ " ${hpcdist[uneven]} " != *" $number "* ]] || hpcdist_write_file "ranks.$number" "$text"
    ((++number))
  done
  hpcdist_move_files
}

# By default jsrun sets it to the number of hardware threads of a task's cores.
prepare_jsrun() {
  hpcdist_unset=()
  [[ -v OMP_NUM_THREADS ]] || hpcdist_unset=(env -u OMP_NUM_THREADS)
}
# Ranks follow jsrun's own order of hosts.
order_nodes_jsrun() {
  local name host ordered=()
  local -A names
  for name in "${hpcdist_nodes[@]}"; do names[${name%%.*}]=$name; done
  while read -r _ host; do ordered+=("${names[${host%%.*}]:-}"); done < <(
    hpcdist_fail() { exit 86; } # the script itself reports it, when its own setup fails
    ! declare -F setup >/dev/null || eval "$(hpcdist_lines_of setup)"
    # shellcheck disable=SC2016 # the task expands it
    jsrun --nrs="${hpcdist[nodes]}" --tasks_per_rs=1 --cpu_per_rs=1 --rs_per_host=1 \
      bash -c 'echo "$JSM_NAMESPACE_RANK $(uname -n)"' </dev/null | sort -n
  )
  if ((${#ordered[@]} == hpcdist[nodes])) && [[ " ${ordered[*]} " != *"  "* ]]; then
    hpcdist_nodes=("${ordered[@]}")
  else
    echo "hpcdist: jsrun did not tell its order of hosts; LSF's is taken" >&2
  fi
}
# Writes unequal tasks to a resource file, one line each, by host, hardware threads ($1 a core) and GPUs ($2: whether tasks
# share them); prints its name. All settings are given, since their defaults are not documented.
# No line has memory.
resource_file() {
  local row text
  printf -v text '%s\n' "cpu_index_using: logical" "launch_distribution: packed" "overlapping_rs: $2" \
    "oversubscribe_cpu: error" "oversubscribe_gpu: $2" "oversubscribe_mem: allow" \
    "skip_missing_cpu: error" "skip_missing_gpu: error" "skip_missing_mem: allow" ""
  for row in "${hpcdist_tasks[@]}"; do hpcdist_resource_lines "$1" "$row"; done
  hpcdist_write_file resources.erf "$text"
  hpcdist_move_files
  echo "$HPCDIST_JOB_DIR/resources.erf"
}
hpcdist_resource_lines() {
  local threads=$1 rank tasks per_node node cpu cpus gpu gpus per_gpu offset slot
  # shellcheck disable=SC2086 # these are words
  set -- $2
  rank=$3 tasks=$4 per_node=$6 node=$7 cpu=$9 cpus=${10} gpu=${11} gpus=${12} per_gpu=${13}
  for ((offset = 0; offset < tasks; offset++)); do
    slot=$((offset % per_node))
    text+="rank: $((rank + offset)): { hostname: ${hpcdist_nodes[node + offset / per_node]}"
    text+=$(hpcdist_numbers cpu "$(((cpu + slot * cpus) * threads))" "$((cpus * threads))")
    if [[ ${hpcdist[gpus]:-none} == @(task|node) ]]; then
      text+="; gpu: *"
    elif ((gpus > 0)); then
      # shellcheck disable=SC2017 # tasks that share a GPU have the same whole number
      text+=$(hpcdist_numbers gpu "$((gpu + slot / per_gpu * gpus))" "$gpus")
    fi
    text+=$' }\n'
  done
}
hpcdist_numbers() { (($3 == 1)) && echo "; $1: {$2}" || echo "; $1: {$2-$(($2 + $3 - 1))}"; }

prepare_flux() {
  type flux >/dev/null 2>&1 || hpcdist_fail "there is no flux on $(uname -n)"
  # Flux may have set it for the first node; HIP would use it on all of them.
  [[ ${hpcdist[gpu_variable]:-CUDA_VISIBLE_DEVICES} == CUDA_VISIBLE_DEVICES ]] || unset CUDA_VISIBLE_DEVICES
}
start_flux() {
  local hpcdist_program hpcdist_code=127 # all other names stay those of the program
  "$@" &
  hpcdist_program=$!
  trap 'hpcdist_signal_flux TERM' TERM
  trap 'hpcdist_signal_flux HUP' HUP
  trap 'hpcdist_signal=passed' ALRM USR1 USR2
  hpcdist_wait_for_program
  return "$hpcdist_code"
}
# A signal to flux run would end it and leave its tasks running: this signals the tasks. Flux itself passes on USR1 and USR2.
hpcdist_signal_flux() {
  local job
  hpcdist_signal=$1
  for job in $(flux jobs -n -f running -o '{id.dec}'); do flux job kill --signal="$1" "$job"; done 2>/dev/null
}

# Signals the ranks on all nodes, where horovodrun has started them by ssh: it ends by a signal, and passes on none but TERM, on
# its own node.
hpcdist_signal_by_ssh() {
  local node here text
  printf -v text 'hpcdist_signal_ranks %q %q' "$1" "$HPCDIST_JOB_DIR"
  text="$(declare -f hpcdist_signal_ranks); $text"
  read -r here </proc/sys/kernel/hostname
  for node in "${hpcdist_nodes[@]}"; do
    if [[ $node == localhost || ${node%%.*} == "${here%%.*}" ]]; then
      hpcdist_signal_ranks "$1" "$HPCDIST_JOB_DIR"
    else
      ssh -o BatchMode=yes -o ConnectTimeout=10 "$node" bash -s <<<"$text" & # whatever the login shell is
    fi
  done </dev/null >/dev/null 2>&1
}
# What the task wrappers of job $2 on this node have started, and the shells of commands of several lines, gets signal $1.
hpcdist_signal_ranks() {
  local file name
  grep -lszxF -e "$2/task.sh" -e "$2/rank.sh" -e "$2/command.sh" /proc/[0-9]*/cmdline | while read -r file; do
    read -r name <"${file%cmdline}comm" && [[ $name == bash ]] || continue
    file=${file%/cmdline}
    # shellcheck disable=SC2046 # these are words
    kill -s "$1" $(<"$file/task/${file##*/}/children")
  done
}

# Starts every task in its own process group, forwards signals, and ends the others when one fails.
start_processes() {
  local hpcdist_rank hpcdist_pid hpcdist_name hpcdist_pids=() hpcdist_forgotten=' ' hpcdist_code=0 # all other names stay those of the program
  set -m
  for ((hpcdist_rank = 0; hpcdist_rank < hpcdist[tasks]; hpcdist_rank++)); do
    HPCDIST_START_RANK=$hpcdist_rank HPCDIST_START_SIZE=${hpcdist[tasks]} "$@" &
    hpcdist_pids+=("$!")
  done
  set +m
  for hpcdist_name in TERM HUP USR1 USR2; do
    # shellcheck disable=SC2064 # the signal's name is that of now
    trap "hpcdist_signal_processes $hpcdist_name" "$hpcdist_name"
  done
  while [[ $(jobs -rp) ]]; do
    hpcdist_signalled=
    wait -n || [[ $hpcdist_signalled${hpcdist[go_on]:-} ]] || hpcdist_signal_processes TERM
    [[ ! $hpcdist_signalled ]] || for hpcdist_pid in "${hpcdist_pids[@]}"; do
      ! hpcdist_is_forgotten "$hpcdist_pid" || { hpcdist_code=1 hpcdist_forgotten+="$hpcdist_pid "; [[ ${hpcdist[go_on]:-} ]] || hpcdist_signal_processes TERM; }
    done
  done
  for hpcdist_pid in "${hpcdist_pids[@]}"; do
    [[ $hpcdist_forgotten == *" $hpcdist_pid "* ]] || wait "$hpcdist_pid" || hpcdist_code=$?
  done
  return "$hpcdist_code"
}
hpcdist_signal_processes() {
  hpcdist_signalled=1
  kill -s "$1" -- "${hpcdist_pids[@]/#/-}" 2>/dev/null
  # Tasks that ignore TERM are killed, if the script still waits for them then.
  [[ $1 == TERM ]] || return
  { sleep 10 && kill -0 $$ && kill -KILL -- "${hpcdist_pids[@]/#/-}"; } </dev/null >/dev/null 2>&1 &
  disown
}
