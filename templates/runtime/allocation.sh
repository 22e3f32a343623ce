# --- The job as the batch system set it: its number, its element of an array, its nodes, and a folder if it has none

allocation_local() {
  hpcdist_job=$$ hpcdist_number=$$ hpcdist_element=
  hpcdist_folder=$PWD/hpcdist-$$
  hpcdist_nodes=(localhost)
  hpcdist_address=127.0.0.1
}

allocation_slurm() {
  local number=0 nodes list
  hpcdist_job=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:?this script is for sbatch}}
  hpcdist_number=$hpcdist_job hpcdist_element=${SLURM_ARRAY_TASK_ID:-}
  hpcdist_folder=$SLURM_SUBMIT_DIR/hpcdist-$SLURM_JOB_ID
  for nodes in ${hpcdist[components]:-}; do
    list=SLURM_JOB_NODELIST_HET_GROUP_$((number++))
    hpcdist_add_hosts "${!list}" "$nodes"
  done
  [[ ${hpcdist[components]:-} ]] || hpcdist_add_hosts "$SLURM_JOB_NODELIST" "$SLURM_JOB_NUM_NODES"
  if [[ ${hpcdist[mode]} == tasks ]]; then
    # Options of the login shell, and those of this script, are not options of the step.
    unset "${!SBATCH_@}" "${!SLURM_NTASKS_PER_NODE@}" SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPUS_PER_TASK \
      SLURM_DISTRIBUTION SLURM_CPU_BIND SLURM_GPU_BIND SLURM_MEM_BIND SLURM_HINT SLURM_MPI_TYPE SLURM_EXPORT_ENV SLURM_HOSTFILE
  else
    export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun since 22.05 does not take it from the job
  fi
  # --export=NONE would apply to the steps as well, which then have no PATH
  [[ ${hpcdist[submit_environment]:-} != clean ]] || export SLURM_EXPORT_ENV=ALL
}
# Adds the hosts of a list such as n[01-03,7],m5, of which there are $2, to the nodes, in Slurm's order. A list in
# another form is left to scontrol.
hpcdist_add_hosts() {
  local before=${#hpcdist_nodes[@]} list=$1
  while [[ $list =~ ^(([^],[]|\[[^]]*\])+),?(.*)$ ]]; do
    list=${BASH_REMATCH[3]}
    hpcdist_add_host "${BASH_REMATCH[1]}"
  done
  ((${#hpcdist_nodes[@]} - before == $2)) || mapfile -t -O "$before" hpcdist_nodes < <(scontrol show hostnames "$1")
}
hpcdist_add_host() {
  local before ranges after range first number host
  if [[ $1 =~ ^([^[]*)\[([^]]*)\](.*)$ ]]; then
    before=${BASH_REMATCH[1]} ranges=${BASH_REMATCH[2]} after=${BASH_REMATCH[3]}
    for range in ${ranges//,/ }; do
      first=${range%-*}
      for ((number = 10#$first; number <= 10#${range#*-}; number++)); do
        printf -v host '%s%0*d%s' "$before" "${#first}" "$number" "$after"
        hpcdist_add_host "$host"
      done
    done
  else
    hpcdist_nodes+=("$1")
  fi
}

allocation_pbs() {
  local name
  hpcdist_job=${PBS_JOBID:?this script is for qsub}
  hpcdist_number=${PBS_JOBID%%[!0-9]*} hpcdist_element=
  case ${hpcdist[array]:-} in
  '') ;;
  *[!0-9]*) hpcdist_job=$PBS_ARRAY_ID hpcdist_element=$PBS_ARRAY_INDEX ;;
  *) export PBS_ARRAY_INDEX=${hpcdist[array]} && hpcdist_element=$PBS_ARRAY_INDEX ;; # PBS has no arrays of one element
  esac
  cd "$PBS_O_WORKDIR" || hpcdist_fail "$(uname -n) has no $PBS_O_WORKDIR; is its file system mounted there?" # PBS begins at home
  hpcdist_folder=$PBS_O_WORKDIR/hpcdist-$hpcdist_number
  # Even with -V, the node's login files set PATH anew.
  [[ ${hpcdist[submit_environment]:-} != inherit ]] || export PATH=${PBS_O_PATH:-$PATH}
  # The nodes in the order of the chunks, and how often each is named: once a task, where they hold different numbers.
  declare -gA hpcdist_named=()
  while read -r name; do
    [[ ${hpcdist_named[$name]:-} ]] || hpcdist_nodes+=("$name")
    hpcdist_named[$name]=$((${hpcdist_named[$name]:-0} + 1))
  done <"$PBS_NODEFILE"
  # PBS's are those of a whole chunk; each task sets its own.
  [[ ${hpcdist[mode]} != tasks ]] || unset OMP_NUM_THREADS NCPUS
}

allocation_lsf() {
  # Where LSF cannot change to this directory, it starts the job in another one.
  cd "${LS_SUBCWD:?this script is for bsub}" || hpcdist_fail "$(uname -n) has no $LS_SUBCWD; is its file system mounted there?"
  hpcdist_job=$LSB_JOBID hpcdist_number=$LSB_JOBID hpcdist_element=${LSB_JOBINDEX#0}
  hpcdist_folder=$LS_SUBCWD/hpcdist-$LSB_JOBID
  local host words=()
  if [[ ${LSB_MCPU_HOSTS:-} ]]; then # each host with its slots behind it
    # shellcheck disable=SC2206 # these are words
    words=($LSB_MCPU_HOSTS)
    for ((host = 0; host < ${#words[@]}; host += 2)); do hpcdist_nodes+=("${words[host]}"); done
  else
    mapfile -t hpcdist_nodes < <(uniq "${LSB_DJOB_HOSTFILE:?LSF named no hosts}")
  fi
  # The first may be the launch node, where this script runs.
  [[ ! ${hpcdist[launch_node]:-} ]] || hpcdist_nodes=("${hpcdist_nodes[@]:1}")
  [[ ! ${hpcdist[orders_nodes]:-} ]] || "order_nodes_${hpcdist[launcher]}"
}
# LSF keeps the output of a job until it is over.
output_lsf() {
  local name=job${hpcdist_element:+-$hpcdist_element} file
  [[ ${hpcdist[run_dir]:-} ]] || return 0
  [[ ! ${hpcdist[packed]:-} ]] || name=${hpcdist[number]:+${hpcdist[number]}-}${name/job-/node-}
  file=$HPCDIST_RUN_DIR/logs/$name.out
  : >>"$file" || hpcdist_fail "cannot write to $HPCDIST_RUN_DIR/logs"
  exec >>"$file" 2>&1
}

allocation_sge() {
  local host count
  local -A slots=()
  hpcdist_job=${JOB_ID:?this script is for qsub} hpcdist_number=$JOB_ID hpcdist_element=${SGE_TASK_ID#undefined}
  hpcdist_folder=${SGE_O_WORKDIR:-$PWD}/hpcdist-$JOB_ID
  hpcdist_nodes=("$HOSTNAME")
  if [[ ${hpcdist[slots]:-} ]]; then
    # Host, slots, queue and processors a line; a host may have several. This script's own host comes first.
    while read -r host count _; do
      [[ $host == "$HOSTNAME" || ${slots[$host]:-} ]] || hpcdist_nodes+=("$host")
      slots[$host]=$((${slots[$host]:-0} + count))
    done <"${PE_HOSTFILE:?no parallel environment started this script}"
    ((hpcdist[slots] > 1 || ${#hpcdist_nodes[@]} == hpcdist[nodes] + ${hpcdist[own_nodes]:-0})) ||
      hpcdist_fail "Grid Engine gave the job ${#hpcdist_nodes[@]} hosts, the plan has $((hpcdist[nodes] + ${hpcdist[own_nodes]:-0}))"
    for host in "${!slots[@]}"; do
      ((${#hpcdist_nodes[@]} == hpcdist[nodes] + ${hpcdist[own_nodes]:-0} && slots[$host] >= hpcdist[slots])) ||
        hpcdist_fail "$host has ${slots[$host]} slots, the plan wants ${hpcdist[slots]} on each host: parallel environment $PE deals them out in another way; name one in sge.environments of the site file whose allocation_rule is ${hpcdist[slots]}"
    done
  fi
  if [[ ${hpcdist[remote]:-ssh} == qrsh ]]; then
    # Open MPI, MPICH and Intel MPI start what runs on other hosts by qrsh -inherit.
    export OMPI_MCA_plm_rsh_disable_qrsh=0 HYDRA_LAUNCHER=sge I_MPI_HYDRA_BOOTSTRAP=sge
  else
    # By ssh, because deleting a job leaves behind tasks that qrsh -inherit started (tried on 8.1.9).
    export OMPI_MCA_plm_rsh_disable_qrsh=1 HYDRA_LAUNCHER=ssh I_MPI_HYDRA_BOOTSTRAP=ssh
  fi
}

# The script is the first program of an instance of Flux on the job's nodes; the job's id is that of the
# enclosing instance. It begins with U+0192, or with an f where the locale lacks that: Flux reads both.
allocation_flux() {
  : "${FLUX_ENCLOSING_ID:?this script is for flux batch}"
  hpcdist_job=${FLUX_ENCLOSING_ID/#$'\xc6\x92'/f} hpcdist_element=
  hpcdist_folder=$PWD/hpcdist-$hpcdist_job
  hpcdist_number=$(flux job id --to=dec "$FLUX_ENCLOSING_ID") || hpcdist_fail "Flux does not answer on $(uname -n)"
  read -r -a hpcdist_nodes < <(flux hostlist --expand local)
}
