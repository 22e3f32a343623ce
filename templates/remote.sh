#!/bin/sh
# What hpcdist runs on a remote, sent in front of each request; any POSIX shell reads it.
# Answers stand behind lines that begin with $hpcdist_mark, a random word: what a login shell prints is ignored.

exec 4>&1
: "${hpcdist_mark:?}" "${hpcdist_most:=0}" "${hpcdist_room:=0}" "${hpcdist_program:=}"

hpcdist_print() { printf '\n%s %s\n' "$hpcdist_mark" "$*"; }

# PROGRAM: go on in a login shell where it is not found, since many sites set PATH only there.
hpcdist_need() {
  command -v "$1" >/dev/null 2>&1 || [ "${hpcdist_login-}" ] || hpcdist_log_in
}

# By a pipe: a variable of the environment takes 128 KiB. The rest of stdin follows as 3.
hpcdist_log_in() {
  command -v bash >/dev/null 2>&1 || return 0
  exec 3<&0
  printf '%s\n' "$hpcdist_program" |
    bash -l -c 'hpcdist_program=$(cat <&5); exec <&3 3<&- 5<&-; hpcdist_login=1; eval "$hpcdist_program"' 3<&3 5<&0 </dev/null
  exit
}

# PREFIXES NAMES: unset variables that begin with one of these prefixes, except those named.
hpcdist_drop() {
  for hpcdist_name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case " $2 " in *" $hpcdist_name "*) continue ;; esac
    for hpcdist_prefix in $1; do
      case $hpcdist_name in "$hpcdist_prefix"*) unset "$hpcdist_name" ;; esac
    done
  done
}

# WORDS: run a command; print its output, its exit code and its errors.
hpcdist_run() {
  hpcdist_print out
  hpcdist_errors=$("$@" 2>&1 >&4 4>&- </dev/null)
  hpcdist_print err "$?"
  printf '%s' "$hpcdist_errors"
}

# SECONDS WORDS: become this command, which is killed after that time: nobody here would end it otherwise.
hpcdist_exec() {
  if command -v timeout >/dev/null 2>&1; then
    set -- timeout -s KILL "$@"
  else
    shift
  fi
  exec "$@"
}

# FOLDER WORDS: run a command unless that was done before, whose answer is then printed. The folder is the
# claim: one process can make it, and a request that comes late, or a second time, finds it.
hpcdist_once() {
  hpcdist_claim=$1
  shift
  if mkdir "$hpcdist_claim" 2>/dev/null; then
    # By a pipe: what goes on in the background may print the answer.
    { "$@" 2>"$hpcdist_claim/err" </dev/null 4>&-; echo "$?" >"$hpcdist_claim/code.new"; } | cat >"$hpcdist_claim/out" &&
      mv "$hpcdist_claim/code.new" "$hpcdist_claim/code"
  elif [ ! -d "$hpcdist_claim" ]; then
    hpcdist_print unwritten "$(mkdir "$hpcdist_claim" 2>&1)"
    return
  fi
  hpcdist_waited=0 # another process may be at it
  while [ ! -f "$hpcdist_claim/code" ] && [ "$hpcdist_waited" -lt 30 ]; do
    sleep 1
    hpcdist_waited=$((hpcdist_waited + 1))
  done
  if [ -f "$hpcdist_claim/code" ]; then
    hpcdist_print out
    cat "$hpcdist_claim/out"
    hpcdist_print err "$(cat "$hpcdist_claim/code")"
    cat "$hpcdist_claim/err"
  else
    hpcdist_print claimed
  fi
}

# FOLDER: claim what nobody has claimed yet, so that nobody can any more.
hpcdist_void() {
  mkdir "$1" 2>/dev/null && printf '' >"$1/out" && printf '' >"$1/err" && echo void >"$1/code"
}

# JOB FOLDER: print the answer of what was run under a claim, or that it may still make a job: it has no answer
# yet, or was killed (137) a short while ago.
hpcdist_claimed() {
  if [ ! -f "$2/code" ]; then
    [ ! -d "$2" ] || hpcdist_print claimed "$1"
    return
  fi
  hpcdist_code=$(cat "$2/code")
  if [ "$hpcdist_code" = 137 ] && [ "$(find "$2/code" -mmin -3 2>/dev/null)" ]; then
    hpcdist_print claimed "$1"
  fi
  hpcdist_print answer "$1" "$hpcdist_code"
  cat "$2/out"
  hpcdist_print errors "$1"
  cat "$2/err"
}

# FOLDER NAME: make the folder of all runs; print its path, and the highest number of a run of this name.
hpcdist_make_folder() {
  if ! hpcdist_problem=$( (umask 077 && mkdir -p "$1" && cd "$1" && echo >".hpcdist-$$" && rm ".hpcdist-$$") 2>&1); then
    hpcdist_print unwritten "${hpcdist_problem:-$1: no file can be written}"
    return
  fi
  cd "$1" || return
  if [ "$(find . -prune \( ! -user "$(id -u)" -o -perm -020 -o -perm -002 \) -print)" ]; then
    hpcdist_print open "$(pwd)"
    return
  fi
  hpcdist_highest=0
  for hpcdist_name in "$2"-*; do
    hpcdist_number=${hpcdist_name#"$2"-}
    case $hpcdist_number in *[!0-9]* | '' | 0* | ??????????*) continue ;; esac
    [ "$hpcdist_number" -le "$hpcdist_highest" ] || hpcdist_highest=$hpcdist_number
  done
  hpcdist_print folder "$hpcdist_highest" "$(pwd)"
}

# FOLDER NAME TOKEN: unpack an archive from stdin into a new folder.
# A request whose connection broke may be at it still when it is sent again: who came last owns the folder.
hpcdist_receive() {
  hpcdist_folder=$1/$2
  umask 077
  if ! hpcdist_problem=$(mkdir "$hpcdist_folder" 2>&1); then
    if [ ! -d "$hpcdist_folder" ]; then
      hpcdist_print unwritten "$hpcdist_problem"
      return
    fi
    if hpcdist_has "$hpcdist_folder/.sent" "$3"; then
      cat >/dev/null
      hpcdist_print received
      return
    fi
    if ! hpcdist_has "$hpcdist_folder/.sending" "$3"; then
      hpcdist_print taken
      return
    fi
  fi
  hpcdist_own="$3 $hpcdist_mark"
  if hpcdist_problem=$({ echo "$hpcdist_own" >"$hpcdist_folder/.sending"; } 2>&1) &&
    hpcdist_unpack "$hpcdist_folder" "$3"; then
    hpcdist_print received
    return
  fi
  # The file is empty where the disk is full.
  if hpcdist_has "$hpcdist_folder/.sending" "$hpcdist_own" || [ ! -s "$hpcdist_folder/.sending" ]; then
    rm -rf "$hpcdist_folder"
  fi
  hpcdist_print unwritten "$hpcdist_problem"
}

# FOLDER TOKEN: unpack an archive from stdin; it is whole when its last file is there, with this token. Otherwise
# $hpcdist_problem is why.
hpcdist_unpack() {
  hpcdist_problem='there is no tar'
  command -v tar >/dev/null 2>&1 || return
  hpcdist_problem=$({ cd "$1" && tar xof -; } 2>&1) && hpcdist_has "$1/.sent" "$2" && return
  hpcdist_problem=${hpcdist_problem:-it came incomplete}
  return 1
}

# RUN TOKEN EVENT: unpack the files of further jobs from stdin into a run that goes on. The event in its log shows
# that it does: a request that comes late changes nothing.
hpcdist_add() {
  hpcdist_new=$1/.adding-$hpcdist_mark
  umask 077
  if hpcdist_problem=$(mkdir "$hpcdist_new" 2>&1) && hpcdist_unpack "$hpcdist_new" "$2" &&
    hpcdist_problem=$({ rm -rf "$1/runtime" && mv "$hpcdist_new"/* "$1" && cd "$1" && { grep -qxF "$3" events || hpcdist_go_on "$3"; }; } 2>&1); then
    hpcdist_print received
  else
    hpcdist_print unwritten "$hpcdist_problem"
  fi
  rm -rf "$hpcdist_new"
}

# EVENT: let the run in this folder go on, as hpcdist.runs.cancelling does here: its attempts are counted anew.
hpcdist_go_on() {
  rm -f stop cancelled && find attempts -name 0 -type f 2>/dev/null | while IFS= read -r hpcdist_file; do
    hpcdist_file=${hpcdist_file%/0}
    find "$hpcdist_file/." -name '[0-9]*' | grep -c '/[0-9]*$' >"$hpcdist_file/first.new" &&
      mv "$hpcdist_file/first.new" "$hpcdist_file/first" && rm -f "$hpcdist_file/over"
  done && echo "$1" >>events
}

# RUN NEW: let a new run begin with copies of the outputs and checkpoints of a run. Links into that one lead to the
# copies, as those that hpcdist.runs.copying makes.
hpcdist_begin_with() {
  umask 077
  for hpcdist_name in outputs checkpoints; do
    [ -d "$1/$hpcdist_name" ] || continue
    if ! hpcdist_problem=$(cp -RPp "$1/$hpcdist_name" "$2" 2>&1); then
      hpcdist_print unwritten "$hpcdist_problem"
      return
    fi
    find "$2/$hpcdist_name" -type l | while IFS= read -r hpcdist_file; do
      hpcdist_line=$(readlink "$hpcdist_file")
      case $hpcdist_line in "$1"/*) rm "$hpcdist_file" && ln -s "$2/${hpcdist_line#"$1"/}" "$hpcdist_file" ;; esac
    done
  done
  hpcdist_print copied
}

# FILE WORDS: whether the first line of a file begins with these words.
hpcdist_has() {
  hpcdist_line=
  { read -r hpcdist_line <"$1"; } 2>/dev/null
  case $hpcdist_line in "$2"*) ;; *) return 1 ;; esac
}

# RUN FOLDER SINCE: print what changed in a run's small files since a time in UTC, as touch -t reads it.
hpcdist_changed() {
  if ! cd "$2" 2>/dev/null; then
    hpcdist_print gone "$1"
    return
  fi
  hpcdist_since=${TMPDIR:-/tmp}/hpcdist-since-$$
  if [ "$3" ] && (umask 077 && set -C && printf '' >"$hpcdist_since" && TZ=UTC0 touch -t "$3" "$hpcdist_since") 2>/dev/null; then
    hpcdist_found -newer "$hpcdist_since"
  else
    hpcdist_found
  fi | while IFS= read -r hpcdist_file; do hpcdist_part "$1" "${hpcdist_file#./}"; done
  rm -f "$hpcdist_since"
}

hpcdist_found() {
  find . \( -path ./outputs -o -path ./checkpoints -o -path ./code -o -path ./python -o -path './record*.json' \
    -o -path './plan*.json' -o -path './job*.sh' -o -path ./experiment.yml -o -path ./options.json -o -name '.*' ! -name . \) -prune \
    -o -type f "$@" -print
}

# RUN FILE: print a file from the byte on that hpcdist_known names, $hpcdist_most bytes at most; nothing of it where
# $hpcdist_room is used up.
hpcdist_part() {
  hpcdist_size=$(wc -c <"$2" 2>/dev/null) || return 0
  hpcdist_size=$((hpcdist_size))
  hpcdist_from=$(hpcdist_known "$1/$2")
  [ "$hpcdist_from" -le "$hpcdist_size" ] || hpcdist_from=0
  hpcdist_length=$((hpcdist_size - hpcdist_from))
  [ "$hpcdist_length" -gt 0 ] || return 0
  [ "$hpcdist_length" -le "$hpcdist_most" ] || hpcdist_length=$hpcdist_most
  [ "$hpcdist_room" -gt 0 ] || hpcdist_length=0
  hpcdist_room=$((hpcdist_room - hpcdist_length))
  hpcdist_print file "$1" "$hpcdist_from" "$hpcdist_length" "$hpcdist_size" "$2"
  tail -c "+$((hpcdist_from + 1))" "$2" | head -c "$hpcdist_length"
}

# PATHS: print the bytes and the time of the last change of each file, and its path, each behind a NUL.
hpcdist_versions() {
  if find . -prune -printf '' 2>/dev/null; then
    find "$@" -type f -printf '%s %T@ %p\0'
  else
    find "$@" -type f -exec sh -c 'for file; do
      printf "%s %s %s\000" "$(($(wc -c <"$file")))" "$(stat -c %Y "$file" 2>/dev/null || stat -f %m "$file")" "$file"
    done' sh {} +
  fi
}

# FOLDER: print the files of a run's outputs.
hpcdist_outputs() {
  if ! cd "$1" 2>/dev/null; then
    hpcdist_print gone
    return
  fi
  hpcdist_print out
  cd outputs 2>/dev/null && hpcdist_versions .
}

# FILE FROM: print $hpcdist_most bytes of a file at most from there on, and then which version it is.
hpcdist_piece() {
  hpcdist_length=$(($(wc -c 2>/dev/null <"$1") - $2))
  [ "$hpcdist_length" -le "$hpcdist_most" ] || hpcdist_length=$hpcdist_most
  if [ "$hpcdist_length" -gt 0 ]; then
    hpcdist_print file 0 "$2" "$hpcdist_length" 0 -
    tail -c "+$(($2 + 1))" "$1" | head -c "$hpcdist_length"
  fi
  hpcdist_print version
  hpcdist_versions "$1" 2>/dev/null
}
