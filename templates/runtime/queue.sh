# --- What is asked of the batch system between two attempts, and how each one answers

# Two attempts at once would write the same checkpoints: the job of attempt HPCDIST_ATTEMPT must be gone, by the batch system's
# word. That is needed neither in a chain, of which each job begins after the end of the one before, nor after `hpcdist resume`.
hpcdist_check_owner() {
  local job id code began=$SECONDS
  until read -r job _ id <"$hpcdist_attempts/$HPCDIST_ATTEMPT" || ((SECONDS - began > 5)); do
    sleep 1 # it is being written
  done
  [[ $job && $job != "$HPCDIST_JOB_ID" ]] && declare -F "lives_${hpcdist[scheduler]}" >/dev/null || return 0
  while :; do # it may be ending
    code=0
    "lives_${hpcdist[scheduler]}" "${id:-$job}" || code=$?
    ((code < 2)) || { [[ ${hpcdist[restart]} != follow ]] && ((HPCDIST_ATTEMPT >= hpcdist_first)); } || return 0
    ((code != 1)) || return 0
    ((SECONDS - began < 120)) || break
    sleep 5
  done
  ((code == 0)) || hpcdist_fail "nobody says whether job $job of this run is alive, which would write the same checkpoints; when it has ended, go on by \`hpcdist resume\`"
  hpcdist_fail "job $job of this run is alive, and would write the same checkpoints; cancel it, then go on by \`hpcdist resume\`"
}
# Puts this job into the queue again; the batch system then ends this script. It may be down at this very moment.
hpcdist_requeue() {
  local code=0 bad began=$SECONDS
  bad=$(hpcdist_bad_nodes)
  while [[ ! ${hpcdist_told_to_end:-} || $hpcdist_why == preempt || ${hpcdist_late:-} ]]; do # else it was cancelled meanwhile
    code=0
    [[ ${hpcdist_end:-} == requeued ]] || "requeue_${hpcdist[scheduler]}" || code=$?
    if ((code == 0)); then
      for _ in {1..5}; do # it may get TERM before it can ignore it
        hpcdist_call_if_there "exclude_${hpcdist[scheduler]}" "${bad//$'\n'/,}"
        (($? == 143)) || break
      done
      hpcdist_end=requeued
      echo "hpcdist: $hpcdist_why: this job is in the queue again"
      return
    elif ((SECONDS - began >= (code == 2 ? 600 : 100))); then
      break
    fi
    sleep 5
  done
  echo "hpcdist: $hpcdist_why: the batch system does not put this job into the queue again; \`hpcdist resume\` goes on with its run" >&2
}
# The followers were submitted with this job: each waits for the end of the one before, and finds that nothing is left to do.
hpcdist_cancel_followers() { hpcdist_of_followers "cancel_${hpcdist[scheduler]}"; }
# They were submitted before the nodes went bad.
hpcdist_exclude_from_followers() {
  local bad
  bad=$(hpcdist_bad_nodes)
  hpcdist_of_followers "exclude_${hpcdist[scheduler]}" "${bad//$'\n'/,}"
}
# Calls function $1 with what follows and the id of each further job of the run, of which some may have ended.
hpcdist_of_followers() {
  local file id
  for file in "$HPCDIST_RUN_DIR"/record.*.json; do
    id=$(sed -n 's/^ *"job_id": "\([^"]*\)",*$/\1/p' "$file")
    id=${id%%;*}
    [[ ! $id || $id == "$HPCDIST_JOB_ID" ]] || hpcdist_call_if_there "$@" "$id"
  done
} >/dev/null 2>&1

# id_ prints the id of this job by which its attempts are found alive, or not: lives_ returns 1 then, and 2 if nobody says so.
id_slurm() { hpcdist_slurm_id; }
id_pbs() { echo "$PBS_JOBID"; }
id_lsf() {
  local element=${LSB_JOBINDEX#0}
  echo "$LSB_JOBID${element:+[$element]}"
}
id_sge() { echo "$JOB_ID ${SGE_TASK_ID#undefined}"; }
id_flux() { echo "$hpcdist_job"; }
id_local() { echo "$$ $(</proc/sys/kernel/hostname) $(hpcdist_begin_of "$$")"; }
# Prints when process $1 began, in ticks since the start of this machine (proc(5)): its number may be given to another one.
hpcdist_begin_of() {
  local line words
  read -r line 2>/dev/null <"/proc/$1/stat" || return
  read -r -a words <<<"${line##*) }"
  echo "${words[19]}"
}
lives_slurm() {
  local said
  said=$(timeout 60 squeue -h -j "$1" -o %T 2>&1) || [[ $said == *'Invalid job id'* ]] || return 2
  [[ $said =~ RUNNING|COMPLETING|SUSPENDED ]]
}
# 35: it has finished; 153: it is unknown.
lives_pbs() {
  local said code=0
  said=$(timeout 60 qstat "$1" 2>/dev/null) || code=$?
  [[ $code == @(0|35|153) ]] || return 2
  hpcdist_has_row "$said" "${1%%.*}" 5 '^[RESUTB]$'
}
lives_lsf() {
  local said
  said=$(timeout 60 bjobs -w "$1" 2>&1) || [[ $said == *'is not found'* ]] || return 2
  hpcdist_has_row "$said" "${1%%[*}" 3 '^(RUN|PROV|USUSP|SSUSP|UNKWN)$'
}
lives_sge() {
  local said id task
  read -r id task <<<"$1"
  said=$(timeout 60 qstat -s rs -u "$(id -un)" 2>/dev/null) || return 2
  awk -v id="$id" -v task="$task" '$1 == id && (task == "" || $NF == task) { found = 1 } END { exit !found }' <<<"$said"
}
lives_flux() {
  local said
  said=$(timeout 60 flux --parent jobs --no-header --format '{state}' "$1" 2>&1) || [[ $said == *unknown* ]] || return 2
  [[ $said =~ RUN|CLEANUP ]]
}
lives_local() {
  local process host began
  read -r process host began <<<"$1"
  [[ $host ]] || return 1
  [[ $host == "$(</proc/sys/kernel/hostname)" ]] || return 2
  [[ $(hpcdist_begin_of "$process") == "$began" ]]
}
# Whether table $1 has a row that begins with $2 and has in column $3 what matches $4.
hpcdist_has_row() { awk -v id="$2" -v column="$3" -v state="$4" 'index($1, id) == 1 && $column ~ state { found = 1 } END { exit !found }' <<<"$1"; }

hpcdist_slurm_id() { echo "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"; }
# Sets hpcdist_said to the answer of a command. It is asked again if TERM ended it, which all processes of a job may get at this
# moment: timeout(1) passes it on, also where it is ignored.
hpcdist_ask() {
  local code
  for _ in {1..5}; do
    code=0
    hpcdist_said=$(trap '' TERM && timeout 60 "$@" 2>&1) || code=$?
    ((code == 143)) || break
  done
  return "$code"
}
# Not one that was cancelled or has ended meanwhile, which Slurm would run again, too: with Incomplete it passes over these, and
# over those that met their limit, and says nothing. Returns 2 if Slurm does not answer. The job waits if TERM, which it gets
# for being in the queue again, came before Slurm's first answer.
requeue_slurm() {
  local said code=0 only=(Incomplete)
  [[ ! ${hpcdist_late:-} ]] || only=()
  hpcdist_ask scontrol requeue "${only[@]}" "$(hpcdist_slurm_id)" || code=$?
  said=$hpcdist_said
  [[ $code != 0 && $said != *'pending execution'* ]] || return 0
  echo "$said" >&2
  [[ $code == 124 || $said == *@('Unable to contact'|'timed out'|'Connection refused'|ommunication)* ]] || return 1
  return 2
}
# exclude_ keeps this job, or follower $2, from the nodes of list $1; those that its user has excluded stay so, and those that
# an earlier attempt has may be in order again. PBS and Flux cannot change that of a job.
# Slurm takes this of jobs in the queue alone, which this one is now: its processes are being ended by TERM.
exclude_slurm() (
  trap '' TERM
  id=${2:-$(hpcdist_slurm_id)}
  own=$(hpcdist_first_answer "$1" "${2:-}" squeue -h -j "$id" -o %x) || exit 0
  exec scontrol update JobId="$id" ExcNodeList="$1${own:+${1:+,}$own}"
)
# All requests of a job are replaced at once; one of hosts by name is left as it is.
exclude_sge() {
  local own hosts others
  own=$(hpcdist_first_answer "$1" "${2:-}" hpcdist_sge_requests "${2:-$JOB_ID}") || return 0
  hosts=$(grep -oP '(^|,)hostname=\K[^,]*' <<<"$own") && [[ $hosts != '!('*')' ]] && return
  hosts=${hosts#??} others=$(grep -oP '(^|,)\K(?!hostname=)[^,]+' <<<"$own" | paste -sd ,)
  hosts=${1//,/|}${1:+${hosts:+|}}${hosts%?}
  hosts=${hosts:+hostname="!($hosts)"}
  timeout 60 qalter -l "$others${others:+${hosts:+,}}$hosts" "${2:-$JOB_ID}" || echo "hpcdist: its nodes may be bad ones again: ${1:-none}" >&2
}
hpcdist_sge_requests() {
  local said
  said=$(timeout 60 qstat -j "$1") && sed -n 's/^hard resource_list: *//p' <<<"$said"
}
# The select sections of all -R are joined (bsub(1)), and bmod replaces all of them.
exclude_lsf() {
  local script=$HPCDIST_RUN_DIR/job${hpcdist[number]:+.${hpcdist[number]}}.sh line node bad='' listed words=()
  [[ $1 ]] && ! grep -q '^#BSUB -nnodes ' "$script" || return 0
  IFS=, read -r -a listed <<<"$1"
  for node in "${listed[@]}"; do bad+="${bad:+ && }hname!='$node'"; done
  while read -r line; do words+=(-R "$line"); done < <(sed -n "s/^#BSUB -R //p" "$script" | sed "s/^[\"']\(.*\)[\"']\$/\1/")
  timeout 60 bmod -R "select[$bad]" "${words[@]}" "$2"
}
# Prints what the command behind them printed when it was first asked of this job, or follower $2. Returns 1 without an answer,
# and if none is needed, as list $1 is empty and was so all the time.
hpcdist_first_answer() {
  local bad=$1 file=$HPCDIST_JOB_DIR/excluded first
  [[ ! $2 ]] || file=$hpcdist_attempts/excluded.$2
  shift 2
  [[ -e $file ]] || { [[ $bad ]] && first=$("$@") && echo "$first" >"$file"; } || return 1
  cat "$file"
}
# Prints which nodes of this job, or of list $1, are down.
down_slurm() { timeout 60 sinfo -h -N -n "${1:-$SLURM_JOB_NODELIST}" -o '%N %T' | awk '$2 ~ /[*]|down|drain|fail/ && !seen[$1]++ { print $1 }'; }
# In the job's own instance, which has lost them; of others the enclosing one knows.
down_flux() {
  local said
  said=$(timeout 60 flux ${1:+--parent} resource status --no-header --states=offline --format='{nodelist}' ${1:+"--include=$1"}) &&
    [[ $said ]] && tr ' ' '\n' < <(flux hostlist --expand "$said")
}
# Prints the nodes by which a launcher that no task's failure explains may have ended.
lost_slurm() {
  local bad
  bad=$(down_slurm)
  [[ ! $bad ]] || echo "hpcdist: by Slurm's word these nodes are not well: ${bad//$'\n'/ }" >&2
}
# Prints why this job is being ended, if it is: tasks get TERM before this script does, or alone when the grace time begins.
# A job that is to make room runs until that is over; one that was cancelled does not. Each component of a heterogeneous job
# has a record of its own.
ending_slurm() {
  hpcdist_ask scontrol show job "$(hpcdist_slurm_id)" || echo "$hpcdist_said" >&2
  awk -v RS='[ \n]+' -F= '
    $1 == "JobId" { preempted += is_preempted(); split("", is) }
    { is[$1] = $2 }
    $1 == "JobState" && $2 != "RUNNING" { ended = 1 }
    $1 == "Reason" && $2 == "TimeLimit" { late = 1 }
    function is_preempted() { return is["JobState"] == "RUNNING" && is["PreemptTime"] ~ /^[0-9]/ && is["PreemptTime"] "" >= is["StartTime"] "" }
    END { if (preempted + is_preempted()) print "preempt"; else if (ended) print late ? "timeout" : "terminated" }' <<<"$hpcdist_said"
}
cancel_slurm() { timeout 60 scancel "$1"; }
cancel_pbs() { timeout 60 qdel "$1"; }
cancel_lsf() { timeout 60 bkill "$1"; }
cancel_sge() { timeout 60 qdel "$1"; }
cancel_flux() { timeout 60 flux --parent cancel "$1"; }
# Exit code 99 means that to Grid Engine, and 100 that the job stays in an error state; a program's own must not.
requeue_sge() { hpcdist_status=99; }
exit_sge() {
  ((hpcdist_status == 99 || hpcdist_status == 100)) || return 0
  echo "hpcdist: the exit code is 1 instead of $hpcdist_status, which Grid Engine takes for a request" >&2
  hpcdist_status=1
}
