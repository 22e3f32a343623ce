# shellcheck shell=bash
# What the files of steps call on a node.

# Runs command $1 until there is file $2, then gives it ten seconds: not every way to a node passes signals on.
step_beside() {
  local program
  set -m
  bash -c "$1" &
  program=$!
  exec 2>/dev/null
  until [[ -e $2 ]]; do
    kill -0 "$program" || { wait "$program"; exit; }
    sleep 1
  done
  kill -TERM -- "-$program"
  for _ in {1..10}; do kill -0 "$program" || exit 0; sleep 1; done
  kill -KILL -- "-$program"
}
# Steps for data, of file or folder $1, which is to be $2 on each node; .part until it is whole.
stage_broadcast() {
  [[ -d $1 || -e $2 ]] || sbcast --force "$1" "$2.part" || echo "hpcdist: each node copies $1"
}
stage_copy() {
  [[ ! -e $2 ]] || return 0
  if [[ ! -f $2.part || $(stat -c %s -- "$2.part") != "$(stat -Lc %s -- "$1")" ]]; then
    rm -rf -- "$2.part" && cp -r -- "$1" "$2.part" || return
  fi
  mv -- "$2.part" "$2"
}
# It is an archive, unpacked in folder $3; in the job's own, nothing that is there may be lost.
stage_unpack() {
  local keep=''
  [[ $3 != "$HPCDIST_STAGE" ]] || keep=k
  stage_copy "$1" "$2" || return
  case $2 in
  *.zip) unzip -qo "$2" -d "$3" ;;
  *) tar "-x${keep}f" "$2" -C "$3" ;;
  esac && rm -- "$2"
}
