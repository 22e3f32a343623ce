# --- The job's logs: its own files, where the experiment names some (batch.output and batch.error), and where attempts begin

# Links in the run's logs name them. A requeued job goes on in the files of its earlier starts.
hpcdist_open_logs() { hpcdist_open_log output; hpcdist_open_log error; }
hpcdist_open_log() {
  local file=${hpcdist[$1]:-} name=job${hpcdist_element:+-$hpcdist_element}
  [[ $file ]] || return 0
  file=${file//%j/"$HPCDIST_JOB_ID"}
  file=${file//%A/"$hpcdist_job"}
  file=${file//%a/"$hpcdist_element"}
  file=${file//%u/"${USER:-$(id -un)}"}
  [[ $file == /* ]] || file=$PWD/$file
  { mkdir -p "${file%/*}" && : >>"$file" && ln -sfn "$file" "$HPCDIST_RUN_DIR/logs/$name.$1.out"; } ||
    hpcdist_fail "cannot write to $file on $(uname -n), which batch.$1 names"
  if [[ $1 == output ]]; then exec >>"$file" 2>&1; else exec 2>>"$file"; fi
}

# Writes a line into the log in which an attempt after the first begins, by which `hpcdist logs --attempt` finds it; also
# into that of errors. (Flux has a pipe for each also where both end in one file.)
hpcdist_announce_attempt() {
  local line
  hpcdist_count_attempts
  ((HPCDIST_ATTEMPT > 0)) && [[ ! -e $hpcdist_attempts/over ]] || return 0
  line="hpcdist: attempt $HPCDIST_ATTEMPT begins (job $HPCDIST_JOB_ID)"
  echo "$line"
  [[ ! ${hpcdist[error]:-} || /dev/fd/1 -ef /dev/fd/2 ]] || echo "$line" >&2
}
