# --- The job's own log files, where the experiment names some: batch.output and batch.error

# Links in the run's logs name them. A requeued job goes on in the files of its earlier starts.
hpcdist_open_logs() {
  local key
  for key in output error; do
    [[ ! ${hpcdist[$key]:-} ]] || hpcdist_open_log "$key" "${hpcdist[$key]}"
  done
}
hpcdist_open_log() {
  local file=$2 name=job${hpcdist_element:+-$hpcdist_element}
  file=${file//%j/"$HPCDIST_JOB_ID"}
  file=${file//%A/"$hpcdist_job"}
  file=${file//%a/"$hpcdist_element"}
  file=${file//%u/"${USER:-$(id -un)}"}
  [[ $file == /* ]] || file=$PWD/$file
  { mkdir -p "${file%/*}" && : >>"$file" && ln -sfn "$file" "$HPCDIST_RUN_DIR/logs/$name.$1.out"; } ||
    hpcdist_fail "cannot write to $file on $(uname -n), which batch.$1 names"
  case $1 in
  output) exec >>"$file" 2>&1 ;;
  error) exec 2>>"$file" ;;
  esac
}
