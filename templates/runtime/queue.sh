# --- What is asked of the batch system between two attempts, and how each one answers

# Two attempts at once would write the same checkpoints: the job of the last one must be gone, by the batch system's word.
hpcdist_check_owner() {
  local try
  [[ $1 && $1 != "$HPCDIST_JOB_ID" ]] && declare -F "lives_${hpcdist[scheduler]}" >/dev/null || return 0
  for ((try = 0; try < 24; try++)); do # it may be ending
    "lives_${hpcdist[scheduler]}" "$1" || return 0
    sleep 5
  done
  hpcdist_fail "job $1 of this run is alive, and would write the same checkpoints; cancel it, then submit this one again"
}
# Puts this job into the queue again; the batch system then ends this script. It may be down at this very moment.
hpcdist_requeue() {
  local try bad
  bad=$(hpcdist_bad_nodes)
  for ((try = 0; try < 20; try++)); do
    [[ ! ${hpcdist_told_to_end:-} || $hpcdist_why == preempt ]] || return # it was cancelled meanwhile
    if "requeue_${hpcdist[scheduler]}"; then
      [[ ! $bad ]] || hpcdist_call_if_there "exclude_${hpcdist[scheduler]}" "${bad//$'\n'/,}"
      hpcdist_end=requeued
      echo "hpcdist: $hpcdist_why: this job is in the queue again"
      return
    fi
    sleep 5
  done
  echo "hpcdist: $hpcdist_why: the batch system does not put this job into the queue again" >&2
}
# The followers were submitted with this job: each waits for the end of the one before, and finds that nothing is left to do.
hpcdist_cancel_followers() {
  local file id
  for file in "$HPCDIST_RUN_DIR"/record.*.json; do
    id=$(sed -n 's/^ *"job_id": "\([^"]*\)",*$/\1/p' "$file")
    id=${id%%;*}
    [[ ! $id || $id == "$HPCDIST_JOB_ID" ]] || hpcdist_call_if_there "cancel_${hpcdist[scheduler]}" "$id"
  done
} >/dev/null 2>&1
hpcdist_slurm_id() { echo "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"; }
# Not one that was cancelled or has ended meanwhile, which Slurm would run again, too.
requeue_slurm() { timeout 60 scontrol requeue Incomplete "$(hpcdist_slurm_id)"; }
# Slurm takes this of jobs in the queue alone, which this one is now: its processes are being ended by TERM.
exclude_slurm() (
  trap '' TERM
  id=$(hpcdist_slurm_id) own=$(squeue -h -j "$(hpcdist_slurm_id)" -o %x)
  exec scontrol update JobId="$id" ExcNodeList="$1${own:+,$own}"
)
down_slurm() { timeout 60 sinfo -h -N -n "$SLURM_JOB_NODELIST" -o '%N %T' | awk '$2 ~ /[*]|down|drain|fail/ && !seen[$1]++ { print $1 }'; }
# Prints why this job is being ended, if it is: tasks get TERM before this script does, or alone when the grace time begins.
# A job that is to make room runs until that is over; one that was cancelled does not.
ending_slurm() {
  timeout 60 scontrol show job "$(hpcdist_slurm_id)" | awk -v RS='[ \n]+' -F= '{ is[$1] = $2 } END {
    if (is["JobState"] == "RUNNING" && is["PreemptTime"] ~ /^[0-9]/ && is["PreemptTime"] "" >= is["StartTime"] "") print "preempt"
    else if (is["JobState"] != "" && is["JobState"] != "RUNNING") print "terminated" }'
}
lives_slurm() { [[ $(timeout 60 squeue -h -j "$1" -o %T) =~ RUNNING|COMPLETING|SUSPENDED ]]; }
lives_pbs() { timeout 60 qstat "$1" >/dev/null 2>&1; }
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
