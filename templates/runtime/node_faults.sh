# --- What a node shows of its faults where a task on it fails: the end of each task, kernel messages, counters that grew

hpcdist_of_faults=(hpcdist_begin_faults hpcdist_count_faults hpcdist_record_faults hpcdist_write_faults hpcdist_of_kernel hpcdist_of_gpus)

# Keeps the counters as they are before the program runs, and the seconds since the node was started: by these the kernel
# stamps its messages.
hpcdist_begin_faults() {
  read -r hpcdist_uptime _ </proc/uptime
  hpcdist_uptime=${hpcdist_uptime%.*}
  hpcdist_count_faults
  hpcdist_faults_before=("${hpcdist_faults[@]}")
} 2>/dev/null
# Sets hpcdist_faults to words NAME=COUNT: links that went down or had wrong symbols, memory errors by controller.
# Sources: Documentation/ABI/stable/sysfs-class-infiniband and Documentation/admin-guide/RAS of Linux.
hpcdist_count_faults() {
  local file count name
  hpcdist_faults=()
  for file in /sys/class/infiniband/*/ports/*/counters/{link_downed,symbol_error,link_error_recovery} /sys/devices/system/edac/mc/mc*/{ue,ce}_count; do
    [[ -r $file ]] && read -r count <"$file" && [[ $count == [0-9]* ]] || continue
    name=${file#/sys/class/infiniband/} name=${name#/sys/devices/system/edac/mc/}
    name=${name/ports\//} name=${name/counters\//}
    hpcdist_faults+=("$name=$count")
  done
} 2>/dev/null
# Adds a line on the end of this task, with exit code $1, to the file of its node; its first task to fail adds what the node
# shows. That takes five seconds at most, whatever hangs: another process writes it, and is not waited for any longer.
hpcdist_record_faults() {
  local file=$HPCDIST_JOB_DIR/faults/${HPCDIST_FAILURE##*/failure.}.${HPCDIST_NODE:-} at is_first='' host tries writer nothing
  [[ ${HPCDIST_NODE:-} && ${HPCDIST_RANK:-} && ! ${hpcdist_ended_by:-} ]] || return 0
  at=${EPOCHREALTIME:-$(date +%s.%N)} at=${at/,/.}
  (umask 077 && mkdir -p "${file%/*}") || return 0
  read -r host </proc/sys/kernel/hostname
  (set -C && echo "# $host" >"$file") && is_first=1
  echo "end $at $1 $HPCDIST_RANK ${HPCDIST_LOCAL_RANK:-0}" >>"$file"
  [[ $is_first ]] || return 0
  hpcdist_write_faults >>"$file" </dev/null &
  writer=$!
  disown "$writer" # or bash would report that it was killed
  exec {nothing}<> <(:)
  for ((tries = 0; tries < 50; tries++)); do
    kill -0 "$writer" || break
    read -r -t 0.1 -u "$nothing"
  done
  exec {nothing}>&-
  kill -KILL "$writer"
} >/dev/null 2>&1
hpcdist_write_faults() {
  local line before
  trap '' TERM INT HUP QUIT ALRM USR1 USR2 XCPU XFSZ
  hpcdist_count_faults
  for line in "${hpcdist_faults[@]}"; do
    for before in "${hpcdist_faults_before[@]}"; do
      [[ ${line%=*} != "${before%=*}" || ${line#*=} == "${before#*=}" ]] || echo "counter ${line%=*} ${before#*=} ${line#*=}"
    done
  done
  hpcdist_of_kernel
  [[ ${hpcdist[gpus]:-} != @(task|node|launcher) || ${hpcdist[gpu_variable]:-} == @(ROCR_|HIP_|ZE_)* ]] || hpcdist_of_gpus
}
# Writes the kernel's messages since this task began that are about faults of hardware, links and memory. Where its log may
# not be read (kernel.dmesg_restrict), there are none.
hpcdist_of_kernel() {
  local text line count=0 at
  local faults='NVRM: Xid|amdgpu.*(GPU reset|ring .* timeout|RAS|uncorrect)|EDAC .*(UE|CE|rror)|\[Hardware Error\]|mce: .*rror|[Ll]ink (is )?([Dd]own|DOWN)|link_down|health (compromised|poll failed)|Out of memory|out of memory|I/O error|nfs: server .* not responding|LustreError|evicted'
  text=$(exec timeout -s KILL 2 dmesg) || text=$(exec timeout -s KILL 2 journalctl -k -q -n 5000 --no-pager -o short-monotonic --since "-$((SECONDS + 60))s")
  while IFS= read -r line; do
    [[ $line =~ ^\[\ *([0-9]+)\. ]] || continue
    at=${BASH_REMATCH[1]}
    ((at >= hpcdist_uptime)) && [[ $line =~ $faults ]] || continue
    echo "kernel ${line:0:300}"
    ((++count < 50)) || break
  done <<<"$text"
}
# Writes what nvidia-smi prints of this job's GPUs: memory errors since the driver was loaded, rows that wait to be replaced;
# a GPU that is lost it reports with a sentence.
hpcdist_of_gpus() {
  local text line row=()
  type -P nvidia-smi >/dev/null || return 0
  if text=$(exec timeout -s KILL 3 nvidia-smi --query-gpu=index,uuid,ecc.errors.uncorrected.volatile.total,retired_pages.pending --format=csv,noheader,nounits 2>&1); then :; elif (($? == 137)); then
    echo 'tool nvidia-smi did not answer within 3 s'
    return 0
  fi
  while IFS= read -r line; do
    IFS=, read -ra row <<<"${line//[[:space:]]/}"
    if [[ ${row[0]:-} == +([0-9]) && ${row[1]:-} == GPU-* ]]; then
      hpcdist_is_own_gpu "${row[0]}" "${row[1]}" || continue
      [[ ${row[2]} != [1-9]* ]] || echo "gpu ${row[0]} ${row[2]} uncorrected memory errors since its driver was loaded"
      [[ ${row[3]} != Yes ]] || echo "gpu ${row[0]} has memory pages that wait to be retired"
    elif [[ $line == *@(is lost|Unable to determine|No devices)* ]]; then
      echo "tool ${line:0:300}"
    fi
  done <<<"$text"
}
