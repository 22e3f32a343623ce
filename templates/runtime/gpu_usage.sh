# --- How much the GPUs and CPUs of each node are used: sampled by a process beside the first of its tasks

hpcdist_of_usage=(hpcdist_begin_gpu_usage hpcdist_end_gpu_usage hpcdist_sample_usage hpcdist_write_usage hpcdist_sample_gpus hpcdist_mib
  hpcdist_is_own_gpu hpcdist_find_own_cpus hpcdist_count_cpu_time)

# It ends with shell $1, whatever ends that one, writes only into its own file, and nothing waits for it.
hpcdist_begin_gpu_usage() {
  [[ ${hpcdist[gpu_usage]:-} && ${HPCDIST_LOCAL_RANK:-0} == 0 ]] || return 0
  hpcdist_sample_usage "$1" "$HPCDIST_JOB_DIR/gpu_usage/${HPCDIST_FAILURE##*/failure.}.${HPCDIST_NODE:-0}" </dev/null >/dev/null 2>&1 &
  hpcdist_sampler=$!
  disown "$hpcdist_sampler" # or bash would report that it was killed
}
hpcdist_end_gpu_usage() { [[ ! ${hpcdist_sampler:-} ]] || kill -KILL "$hpcdist_sampler" 2>/dev/null; }
# Writes a line for each span of time, of which the first ones have a sample each, later ones more: they grow with the job, to
# a hundredth of its time, so that a job of 30 days has a thousand lines. What a kill loses is less than the last hundredth.
hpcdist_sample_usage() {
  local parent=$1 file=$2 every=${hpcdist[gpu_usage]} tool host stat began=$SECONDS span_began=$SECONDS due failed=0 nothing
  local use=() count=() used=() total=() own_cpus=() busy all busy_before all_before samples=0 before spent=0
  trap '' TERM INT HUP QUIT ALRM USR1 USR2 XCPU XFSZ
  shopt -s extglob
  case ${hpcdist[gpu_variable]:-} in
  ROCR_* | HIP_*) tool=rocm-smi ;;
  ZE_*) tool=xpu-smi ;;
  *) tool=nvidia-smi ;;
  esac
  type -P "$tool" || return
  for nothing in "/proc/$BASHPID/fd"/*; do # the launcher may wait for the end of those who have its pipes
    nothing=${nothing##*/}
    ((nothing < 3 || nothing == 255)) || exec {nothing}>&-
  done
  exec {nothing}<> <(:)
  (umask 077 && exec mkdir -p "${file%/*}") || return
  read -r host </proc/sys/kernel/hostname
  hpcdist_find_own_cpus
  hpcdist_count_cpu_time
  busy_before=$busy all_before=$all due=$((SECONDS + every))
  while :; do
    while ((SECONDS < due)); do
      read -r -t "$((due - SECONDS < 5 ? due - SECONDS : 5))" -u "$nothing"
      read -ra stat <"/proc/$BASHPID/stat"
      ((stat[3] == parent)) || return # another process has taken the place of a parent that has ended
    done
    if hpcdist_sample_gpus "$tool"; then failed=0; elif ((++failed == 3)); then return; fi
    ((SECONDS - span_began < every || SECONDS - span_began < (SECONDS - began) / 100 || samples == 0)) || hpcdist_write_usage
    # Its own CPU time, in hundredths of a second, is to be a thousandth of the job's at most, with the next sample, which is taken
    # to cost as much as this one. The first one is before that: nobody knows yet what it costs.
    read -ra stat <"/proc/$BASHPID/stat"
    before=$spent spent=$((stat[13] + stat[14] + stat[15] + stat[16]))
    due=$((began + (2 * spent - before) * 10))
    ((due > SECONDS + every)) || due=$((SECONDS + every))
  done
}
# Appends a line: the time, the seconds and samples of the span, the percentage for which the CPUs of this task were busy, and of
# each GPU its number, percentage of use, and MiB of memory, in use at most and in all; what is not known is -.
hpcdist_write_usage() {
  local id cpu=- text
  [[ -e $file ]] || printf '# %s %s\n' "$host" "$tool" >>"$file"
  hpcdist_count_cpu_time
  ((all <= all_before)) || cpu=$((100 * (busy - busy_before) / (all - all_before)))
  printf -v text '%(%s)T %s %s %s' -1 "$((SECONDS - span_began))" "$samples" "$cpu"
  for id in "${!used[@]}"; do
    text+=" $id:$((count[id] ? use[id] / count[id] : -1)):${used[id]}:${total[id]:--}"
  done
  printf '%s\n' "${text//:-1:/:-:}" >>"$file"
  use=() count=() used=() total=() samples=0 span_began=$SECONDS busy_before=$busy all_before=$all
}
# Adds what the tool prints of the GPUs of this job. Tools that hang are killed; options and columns are those of the manuals of
# nvidia-smi, rocm-smi and xpu-smi, whose first sample of a device may be N/A.
hpcdist_sample_gpus() {
  local text line cell head=() row=() place id uuid percent memory whole seen=
  case $1 in
  nvidia-smi) set -- "$1" --query-gpu=index,uuid,utilization.gpu,memory.used,memory.total --format=csv,nounits ;;
  rocm-smi) set -- "$1" --showuse --showmeminfo vram --csv ;;
  xpu-smi) set -- "$1" dump -d -1 -m 0,18 -i 1 -n 2 ;;
  esac
  text=$(exec env -u HPCDIST_TOKEN timeout -s KILL 10 "$@" </dev/null 2>/dev/null)
  while IFS= read -r line; do
    IFS=, read -ra row <<<"$line"
    if ((${#head[@]} == 0)); then
      [[ $line != @(index|device|Timestamp),* ]] || head=("${row[@]}")
      continue
    fi
    id='' uuid='' percent=- memory=- whole=-
    for place in "${!row[@]}"; do
      cell=${row[place]//[[:space:]]/}
      case ${head[place]} in
      index | device | *DeviceId) id=${cell#card} ;;
      *uuid) uuid=$cell ;;
      *utilization.gpu* | GPU\ use* | *GPU\ Utilization*) percent=${cell%.*} ;;
      *Memory\ Use[d]*MiB* | *memory.used*) memory=${cell%.*} ;;
      *Used\ Memory\ \(B\)) memory=$(hpcdist_mib "$cell") ;;
      *memory.total*) whole=${cell%.*} ;;
      *Total\ Memory\ \(B\)) whole=$(hpcdist_mib "$cell") ;;
      esac
    done
    if [[ $id != +([0-9]) ]] || ! hpcdist_is_own_gpu "$id" "$uuid"; then continue; fi
    id=$((10#$id)) seen=1
    [[ $percent != +([0-9]) ]] || ((use[id] += 10#$percent, ++count[id]))
    [[ ${used[id]:-} ]] || used[id]=-
    [[ $memory != +([0-9]) ]] || { [[ ${used[id]} != - ]] && ((memory <= used[id])); } || used[id]=$memory
    [[ $whole != +([0-9]) ]] || total[id]=$whole
  done <<<"$text"
  [[ $seen ]] && ((++samples))
}
hpcdist_mib() { [[ $1 != +([0-9]) ]] || echo $(($1 >> 20)); }
# Whether this GPU is the job's, by the variable as the batch system set it: without one, or where the launcher sets it for each
# task, all that can be seen are taken.
hpcdist_is_own_gpu() {
  local name
  [[ ${hpcdist_visible:-} && ${hpcdist[gpus]:-} != launcher ]] || return 0
  for name in ${hpcdist_visible//,/ }; do
    [[ $name != "$1" && ! ($2 && $name == [A-Z]* && $2 == "$name"*) ]] || return 0
  done
  return 1
}
hpcdist_find_own_cpus() {
  local name value range cpu
  while read -r name value; do
    [[ $name == Cpus_allowed_list: ]] || continue
    for range in ${value//,/ }; do
      for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do own_cpus[cpu]=1; done
    done
  done </proc/self/status
}
# Sets busy and all to the time of the CPUs on which this task may run, in hundredths of a second (proc(5)).
hpcdist_count_cpu_time() {
  local line lines=() cells=()
  busy=0 all=0
  mapfile -t lines </proc/stat
  for line in "${lines[@]:1}"; do # behind the sum of all
    [[ $line == cpu* ]] || break
    read -ra cells <<<"$line"
    [[ ${own_cpus[${cells[0]#cpu}]:-} ]] || continue
    ((busy += cells[1] + cells[2] + cells[3] + cells[6] + cells[7] + cells[8]))
    ((all += cells[1] + cells[2] + cells[3] + cells[4] + cells[5] + cells[6] + cells[7] + cells[8]))
  done
}
