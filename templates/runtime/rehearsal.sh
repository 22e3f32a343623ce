# --- A rehearsal (hpcdist rehearse): all attempts but the last are ended on purpose, and what each leaves is recorded

# rehearsal/N has what was seen of attempt N, a line each with the milliseconds since 1970, all by the clock of this node:
#   begin MS TRACKING KIND  the attempt, its folder in tracking/, and how it is to be ended; `last` by nobody
#   files MS                the checkpoints as they were then: the lines behind it, + INODE BYTES CHANGED BORN PATH
#   end_by MS KIND NODE RANK   what ended it, from here on; RANK is - for all of a node, and for the signal
#   untried MS KIND NODE    there was nothing to end, or no way to it
#   enough MS               the last attempt has shown what it can
#   end MS CODE             the program ended
#   read MS INODE CHANGED PATH   a checkpoint that it read, where `seen MS yes` says that the file system shows that

# Starts watching the attempt whose program has started.
hpcdist_begin_rehearsal() {
  hpcdist_seen=$HPCDIST_RUN_DIR/rehearsal/$HPCDIST_ATTEMPT
  (umask 077 && exec mkdir -p "${hpcdist_seen%/*}") || hpcdist_unwritten
  hpcdist_watch_attempt "$HPCDIST_FAILURE" </dev/null >/dev/null 2>&1 &
  hpcdist_watcher=$!
}
# After an attempt: returns 0 if another one follows.
hpcdist_rehearse_next() {
  local now
  wait "$hpcdist_watcher"
  hpcdist_doubt_success
  hpcdist_write_seen end "$hpcdist_status"
  hpcdist_find_read
  hpcdist_try_reading
  hpcdist_files=$(hpcdist_list_checkpoints)
  unset hpcdist_at_limit hpcdist_got_term
  [[ ! ${hpcdist_told_to_end:-} ]] || return
  if grep -q '^enough ' "$hpcdist_seen"; then
    hpcdist_status=0
    echo "hpcdist: the rehearsal is over"
    return 1
  fi
  ((hpcdist_status != 0)) && grep -q '^end_by ' "$hpcdist_seen"
}

# Records which files of the checkpoints were read, and makes them look as if nobody had for two days: most file systems write
# down the first reading after a day (relatime). The next checkpoint may replace a file that was read.
hpcdist_find_read() {
  local now
  hpcdist_now
  find "$HPCDIST_CHECKPOINTS" -type f -newerat '1 day ago' -exec stat -c "read $now %i %.Y %n" {} + -exec touch -a -d '2 days ago' {} + >>"$hpcdist_seen"
} 2>/dev/null
# A file of our own shows whether the file system writes that down.
hpcdist_try_reading() {
  local file=$HPCDIST_CHECKPOINTS/.hpcdist-$$ seen=no
  echo read >"$file" && touch -a -d '2 days ago' "$file" && cat "$file" >/dev/null
  [[ ! $(find "$file" -newerat '1 day ago') ]] || seen=yes
  rm -f "$file"
  hpcdist_write_seen seen "$seen"
} 2>/dev/null
hpcdist_list_checkpoints() { (cd "$HPCDIST_CHECKPOINTS" && find . -type f -exec stat -c '+ %i %s %.Y %.W %n' {} + 2>/dev/null); }
hpcdist_now() {
  if [[ ${EPOCHREALTIME:-} ]]; then # bash 5
    now=${EPOCHREALTIME/[.,]/}
    now=${now%???}
  else
    now=$(date +%s%3N)
  fi
}
hpcdist_write_seen() {
  hpcdist_now
  echo "$1 $now ${*:2}" >>"$hpcdist_seen"
}

# Watches the checkpoints of an attempt, whose failures are written to file $1, and ends it.
hpcdist_watch_attempt() {
  local kind until now began interval=0 part=0 first='' second='' changed='' started='' moment='' took=0
  trap - EXIT TERM INT HUP USR1 USR2 URG
  unset HPCDIST_FAILURE # what is started from here is none of the program's
  hpcdist_now
  began=$now
  hpcdist_choose_end
  hpcdist_write_seen begin "${HPCDIST_TRACKING#"$HPCDIST_RUN_DIR/tracking/"}" "$kind"
  hpcdist_write_files_seen
  while hpcdist_lives; do
    hpcdist_look
    if [[ $moment ]]; then
      [[ $kind == last ]] || ((started == first || started == second)) || hpcdist_hasten
      ((now < moment)) || break
    elif [[ $first ]] && ((now - changed >= 1000 || now - first >= 3000)); then
      hpcdist_choose_moment
    elif ((now >= until)); then
      moment=$now
    fi
    sleep 0.1
  done
  ! hpcdist_lives || hpcdist_end_attempt "$1"
  while hpcdist_lives; do
    hpcdist_look
    sleep 0.1
  done
  hpcdist_look
}
hpcdist_lives() { kill -0 "$$" && kill -0 "$hpcdist_program"; }
# Sets how this attempt is ended, and until when its first checkpoint is waited for. Of the time that is left each end gets
# the same part, the first one half of it; it ends as many times as there is time for, by how long the first one took.
hpcdist_choose_end() {
  local seed kinds seconds left number=$HPCDIST_ATTEMPT first=0 start=$began
  read -r seed kinds <<<"${hpcdist[rehearsal]}"
  read -r -a kinds <<<"$kinds"
  RANDOM=$((seed + number))
  hpcdist_seconds_of "${hpcdist[walltime]}"
  [[ ! -e ${hpcdist_seen%/*}/0 ]] || read -r _ start _ <"${hpcdist_seen%/*}/0"
  read -r first 2>/dev/null <"${hpcdist_seen%/*}/first"
  left=$((start + (seconds - 60) * 1000 - began))
  kind=${kinds[number]:-last}
  [[ $kind == last ]] || ((left > 2 * ${first:-0})) || kind=last
  [[ $kind != notice ]] || left=$((left - ${hpcdist[notice]% *} * 1000))
  left=$((left / (number == 0 ? 2 : ${#kinds[@]} - number + 1)))
  until=$((began + (left > ${first:-0} ? left : ${first:-0})))
}
# Some time after the first checkpoint: it is as far from the next one, as far as anybody knows, as it was from the start.
hpcdist_choose_moment() {
  interval=$((first - began))
  [[ $HPCDIST_ATTEMPT != 0 ]] || echo "$((interval + 1000))" >"${hpcdist_seen%/*}/first"
  ((interval < until - now)) || interval=$((until > now ? until - now : 0))
  moment=$now
  part=$RANDOM
  [[ $kind == last ]] || moment=$((now + part * interval / 32768))
}
# The second checkpoint is there: now it is known how far they are apart.
hpcdist_hasten() {
  [[ ! $second ]] || return
  second=$started
  ((now + part * (second - first) / 32768 > moment)) || moment=$((now + part * (second - first) / 32768))
}
# Records the checkpoints if they have changed. Sets when they last did and first did, when the last writing began, and how
# long the one before it took.
hpcdist_look() {
  local files
  hpcdist_find_read
  files=$(hpcdist_list_checkpoints)
  hpcdist_now
  [[ $files != "${hpcdist_files-}" ]] || return
  if [[ ! $changed ]] || ((now - changed >= 1000)); then
    took=$((changed - started)) started=$now
  fi
  changed=$now first=${first:-$now} hpcdist_files=$files
  hpcdist_write_files_seen
}
hpcdist_write_files_seen() { echo "files $now${hpcdist_files:+$'\n'$hpcdist_files}" >>"$hpcdist_seen"; }

hpcdist_end_attempt() {
  local node=0 last=$((${#hpcdist_nodes[@]} - 1))
  case $kind in
  notice | last)
    [[ $kind != last ]] || hpcdist_write_seen enough
    hpcdist_end_as_at_limit
    return
    ;;
  write) hpcdist_await_writing ;;
  node) node=$((RANDOM % (last + 1))) ;;
  rank) ((last == 0)) || node=$((1 + RANDOM % last)) ;; # `write` was on the first one
  esac
  if ! hpcdist_kill_there "$node" "$1" || ! hpcdist_await_end 60; then hpcdist_end_as_at_limit; fi
}
# The signal, and what follows if the program does not end: as hpcdist_ring does it.
hpcdist_end_as_at_limit() {
  local notice=${hpcdist[notice]% *}
  hpcdist_write_seen end_by "$kind" - -
  kill -URG "$$"
  hpcdist_await_end "$((notice - (notice < 60 ? notice / 2 : 30)))" || kill -URG "$$"
}
# Waits $1 seconds for the end of the program.
hpcdist_await_end() {
  local end now
  hpcdist_now
  end=$((now + $1 * 1000))
  while hpcdist_lives; do
    hpcdist_look
    ((now < end)) || return
    sleep 0.1
  done
}
# Waits until a checkpoint is being written, not for ever, and then for a part of the time that the one before it took. Some
# programs write without a pause.
hpcdist_await_writing() {
  local before=$started since=$now end=$((now + 3 * interval + 3000))
  ((end < until)) || end=$until
  while hpcdist_lives && [[ $started == "$before" ]]; do
    hpcdist_look
    ((now < end)) || return
    ((now - since < 2000 || now - changed >= 1000)) || return
    sleep 0.05
  done
  moment=$((now + RANDOM * took / 32768))
  while hpcdist_lives && ((now < moment)); do
    sleep 0.05
    hpcdist_look
  done
}

# Ends ranks of this attempt, whose failures are written to file $2, on the node with number $1.
hpcdist_kill_there() {
  local file=$HPCDIST_JOB_DIR/rehearse.$HPCDIST_ATTEMPT.sh words pid try node='' rank
  printf -v words '%q ' "$kind" "$2" "$(cd "$HPCDIST_CHECKPOINTS" && pwd -P)" "$RANDOM" "$$" "${hpcdist[mode]}"
  printf '%s\n' "$(declare -f hpcdist_kill_ranks hpcdist_shells_above hpcdist_rank_of)" "hpcdist_kill_ranks $words" >"$file"
  : >"$file.out"
  hpcdist_run_there "$1" "$file" >"$file.out" &
  pid=$!
  for ((try = 0; try < 300; try++)); do
    kill -0 "$pid" || break
    hpcdist_look
    sleep 0.1
  done
  kill "$pid"
  read -r node rank <"$file.out"
  if [[ ! $node ]]; then
    hpcdist_write_seen untried "$kind" "${hpcdist_nodes[$1]}"
    return 1
  fi
  hpcdist_write_seen end_by "$kind" "$node" "${rank// /,}"
}
hpcdist_run_there() {
  local here
  read -r here </proc/sys/kernel/hostname
  if [[ ${hpcdist[scheduler]} == slurm && ${here%%.*} != "${hpcdist_nodes[$1]%%.*}" ]]; then
    steps_srun "$2" "$1" "$1"
  else
    hpcdist_on_node "$1" "$2"
  fi
}
# On a node: ends by KILL the processes of one rank, for `write` of one that has a checkpoint open, for `node` those of all
# ranks with the shells that wait for them; prints the node and the ranks.
# shellcheck disable=SC2013,SC2206,SC2207 # these are words
hpcdist_kill_ranks() {
  local kind=$1 failure=$2 folder=$3 script=$5 mode=$6 file pid rank chosen pids=()
  local -A ranks=() writes=()
  RANDOM=$4
  for file in $(grep -lzxF -e "HPCDIST_FAILURE=$failure" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file//[!0-9]/}
    rank=$(hpcdist_rank_of "$mode" <"$file")
    [[ $rank ]] || continue
    ranks[$rank]+=" $pid"
    [[ ! $(find "/proc/$pid/fd" -lname "$folder/*" -print -quit 2>/dev/null) ]] || writes[$rank]=1
  done
  chosen=("${!ranks[@]}")
  if [[ $kind != node ]]; then
    # Of a task such as torchrun the workers are the ranks.
    [[ " ${chosen[*]}" != *" w"* ]] || mapfile -t chosen < <(printf '%s\n' "${chosen[@]}" | grep ^w)
    [[ $kind != write || ${#writes[@]} == 0 ]] || chosen=("${!writes[@]}")
    ((${#chosen[@]} < 2)) || chosen=("${chosen[RANDOM % ${#chosen[@]}]}")
  fi
  for rank in "${chosen[@]}"; do pids+=(${ranks[$rank]}); done
  [[ $kind != node ]] || pids+=($(hpcdist_shells_above "$script" "${pids[@]}"))
  ((${#pids[@]})) || return
  kill -KILL "${pids[@]}" 2>/dev/null
  echo "$(uname -n) ${chosen[*]#[tw]}"
}
# Prints the shells, but for that of the job's script, $1, which are parents of the other processes.
hpcdist_shells_above() {
  local pid text parent name
  for pid in "${@:2}"; do
    read -r text 2>/dev/null <"/proc/$pid/stat" || continue
    read -r _ parent _ <<<"${text##*) }"
    read -r name 2>/dev/null <"/proc/$parent/comm"
    [[ $name != bash || $parent == "$1" || " ${*:2} " == *" $parent "* ]] || echo "$parent"
  done
}
# Prints the rank of a process from its environment: tN of a task, wN of a process that an agent or a launcher started.
hpcdist_rank_of() {
  local word task='' worker=''
  while IFS= read -r -d '' word; do
    case $word in
    HPCDIST_RANK=*) task=${word#*=} ;;
    RANK=* | OMPI_COMM_WORLD_RANK=* | PMIX_RANK=* | PMI_RANK=* | HOROVOD_RANK=*) worker=${word#*=} ;;
    esac
  done
  [[ $task =~ ^[0-9]+$ || $1 == once ]] || return # the shell that waits for a task
  if [[ $worker =~ ^[0-9]+$ ]]; then
    echo "w$worker"
  elif [[ $task ]]; then
    echo "t$task"
  fi
}
