# --- What is needed before anything starts: setup() calls these

# `module` is a function, which a script does not always inherit: it is defined where login shells find it.
hpcdist_find_modules() {
  local file
  for file in "${LMOD_PKG:+$LMOD_PKG/init/bash}" "${MODULESHOME:+$MODULESHOME/init/bash}" /etc/profile.d/*mod*.sh; do
    type module >/dev/null 2>&1 && return
    # shellcheck source=/dev/null # the site's own file
    [[ ! -r $file ]] || source "$file"
  done
  type module >/dev/null 2>&1
}
# Loads module $1, which $2 names. (The module command of Modules 3 returns 0 whatever happens; Lmod and Modules 4 set
# one of the two variables.)
load_module() {
  local before=${LOADEDMODULES:-}
  hpcdist_find_modules || hpcdist_fail "there is no module command on $(uname -n) to load $1 ($2); name the file that defines it under 'source' in the site file"
  module load "$1" && [[ ${LMOD_CMD:-}${MODULES_CMD:-} || ${LOADEDMODULES:-} != "$before" || :$before: == *":$1"[:/]* ]] ||
    hpcdist_fail "module $1 ($2) cannot be loaded on $(uname -n); 'module avail' there shows those that can"
}
# Unloads the module of -NAME, or all for "purge", or all but the default ones for "reset" (Lmod, Modules 5.2). That nothing
# is loaded is no failure; what is sticky stays, as the centre means it to.
unload_modules() {
  hpcdist_find_modules || hpcdist_fail "there is no module command on $(uname -n) to unload modules ($2); remove it"
  case $1 in
  -*) module unload "${1#-}" ;;
  reset) module reset || hpcdist_fail "the modules ($2) cannot be reset on $(uname -n); write purge instead" ;;
  *) module "$1" ;;
  esac
  [[ $1 != -* || :${LOADEDMODULES:-}: != *":${1#-}"[:/]* ]] ||
    hpcdist_fail "module ${1#-} ($2) cannot be unloaded on $(uname -n)"
}
# Activates the Spack environment that $1 names; the other arguments are Spack's. Only its shell function can change this shell.
activate_spack() {
  local origin=$1 root
  shift
  if [[ $(type -t spack) != function ]]; then
    root=$(spack location --spack-root 2>/dev/null || echo "${SPACK_ROOT:-}")
    [[ -r $root/share/spack/setup-env.sh ]] ||
      hpcdist_fail "there is no Spack on $(uname -n) to activate ${*: -1} ($origin); set SPACK_ROOT, or load Spack's module by 'batch.modules'"
    # shellcheck source=/dev/null # Spack's own file
    source "$root/share/spack/setup-env.sh"
  fi
  spack env activate "$@" && [[ ${SPACK_ENV:-} ]] ||
    hpcdist_fail "the Spack environment ${*: -1} ($origin) cannot be activated on $(uname -n); 'spack env list' there shows those with names"
}
# Makes a file of an image, with suffix $1, before any task needs it: each task or node would fetch it by itself. The other
# words are the program's, which wants the file's name before the last one, the image. Of an array the element that makes a
# folder for that does so, and renews it meanwhile; the others wait for it.
fetch_image() {
  local lock=$HPCDIST_RUN_DIR/image.lock gone=0
  hpcdist_image=$HPCDIST_RUN_DIR/image.$1
  if ! type "$2" >/dev/null 2>&1; then
    echo "hpcdist: there is no $2 on $(uname -n), so each node fetches ${!#} by itself" >&2
    hpcdist_image=${!#}
    hpcdist_image=${hpcdist_image#docker://}
    return
  fi
  until [[ -s $hpcdist_image ]]; do
    if mkdir "$lock" 2>/dev/null; then
      [[ -s $hpcdist_image ]] || hpcdist_fetch_image "$@"
      rmdir "$lock"
    elif [[ ! -d $lock ]]; then
      ((gone++ < 5)) || hpcdist_unwritten
    elif [[ $(find "$lock" -maxdepth 0 -mmin +2) ]]; then
      rmdir "$lock" # whoever made it is gone
    else
      sleep 2
    fi
  done
}
# A name of its own until it is whole; the program ends after an hour at most.
hpcdist_fetch_image() {
  local file=$HPCDIST_JOB_DIR/image.$1 suffix=$1 renews code
  shift
  while sleep 30 && kill -0 "$$"; do touch -c "$HPCDIST_RUN_DIR/image.lock"; done >/dev/null 2>&1 &
  renews=$!
  rm -f -- "$file"
  timeout --kill-after=30 3600 "${@:1:$#-1}" "$file" "${!#}" && [[ -s $file ]] && mv -f -- "$file" "$hpcdist_image"
  code=$?
  kill "$renews" && wait "$renews" 2>/dev/null
  ((code == 0)) || {
    rm -f -- "$file"
    rmdir "$HPCDIST_RUN_DIR/image.lock"
    hpcdist_fail "$1 cannot fetch ${!#} on $(uname -n) (exit code $code); where nodes have no internet, run \`${*:1:$#-1} NAME.$suffix ${!#}\` before you submit, and write build: {image: NAME.$suffix}"
  }
}
# Writes the file of CSCS' Container Engine (EDF), which srun --environment gets.
write_edf() {
  [[ $1 ]] || hpcdist_unwritten
  hpcdist_write_file environment.toml "$1"$'\n'
  hpcdist_move_files
}
# Prints it for image $1 and folder $2, with mounts, behind -- annotations, and behind another one variables, by their names
# alone where the job has them. An environment of the user's, a file or a name that the engine would find, is what it is based
# on: that has annotations, and variables of its own.
edf_text() {
  local image=$1 key=image part=mounts mounts=() lines=() item folder
  [[ $image != .* ]] || image=$PWD/$image
  [[ $image != *.toml ]] || key=base_environment
  while [[ $image != */* ]] && IFS= read -r -d : folder; do
    [[ ! -e $folder/$image.toml ]] || key=base_environment
  done <<<"${EDF_PATH:-$HOME/.edf}:"
  [[ $key$image != base_environment[!/]* ]] || echo "hpcdist: $image is your environment of this name" >&2
  printf '%s = %s\nworkdir = %s\n' "$key" "$(hpcdist_toml "$image")" "$(hpcdist_toml "$2")"
  for item in "${@:3}"; do
    case $part$item in
    mounts--) part=annotations && lines+=('[annotations]') ;;
    annotations--) part=variables && lines+=('[env]') ;;
    mounts*) mounts+=("$(hpcdist_toml "$item")") ;;
    *=*) [[ $key == base_environment ]] || lines+=("${item%%=*} = $(hpcdist_toml "${item#*=}")") ;;
    *) [[ ! -v $item ]] || lines+=("$item = $(hpcdist_toml "${!item}")") ;;
    esac
  done
  printf -v item ', %s' "${mounts[@]}"
  printf '%s\n' "mounts = [${item#, }]" "${lines[@]}"
}
# Prints a text as a string of TOML, in which the engine expands no variable.
# shellcheck disable=SC2016 # nor does bash
hpcdist_toml() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"} text=${text//$'\n'/\\n} text=${text//$'\t'/\\t}
  printf '"%s"' "${text//'${'/'$${'}"
}
# Before and after the lines of setup(): records which variables they change, as some launchers pass to other nodes only
# those that are named. A function of the same name in a file that setup reads would replace ours.
hpcdist_begin_setup() {
  local name
  declare -gA hpcdist_before=()
  hpcdist_ours=$(hpcdist_functions)
  for name in $(compgen -e); do hpcdist_before[$name]="=${!name}"; done
  hpcdist_setup=$(hpcdist_lines_of setup)
}
hpcdist_end_setup() {
  local name
  hpcdist_reset_shell
  [[ $hpcdist_ours == "$(hpcdist_functions)" ]] ||
    hpcdist_fail "a line of setup, or a file that it reads, defines a function that this script has too: environment, launch, found, linked, start_processes, start_flux or resource_file"
  for name in $(compgen -e); do
    [[ ${hpcdist_before[$name]-} == "=${!name}" ]] || hpcdist_changed+=("$name")
  done
}
hpcdist_functions() { declare -f environment launch found linked start_processes start_flux resource_file; }
# Prints the body of function $1, in braces.
hpcdist_lines_of() {
  local text
  text=$(declare -f "$1")
  echo "${text#*)}"
}

# Whether there is such a file; one without a folder is a library, wherever programs look for those.
found() {
  local folder IFS=:
  if [[ $1 == */* ]]; then
    compgen -G "$1" >/dev/null
    return
  fi
  for folder in ${LD_LIBRARY_PATH:-}; do
    compgen -G "$folder/$1" >/dev/null && return
  done
  return 1
}
# Whether a program of the command is linked with library $1, as the loader finds it here. Scripts of bash that it runs, its
# folders and its variables are followed as far as they are plain; where a program stays unknown, a note says that variable $2
# is not set.
linked() {
  local -A hpcdist_values=()
  local hpcdist_folders=("$PWD") hpcdist_unfound=''
  hpcdist_links "$1" "$HPCDIST_JOB_DIR/command.sh" 0 && return
  [[ ! $hpcdist_unfound || :${hpcdist_unlinked:-}: == *":$2:"* ]] ||
    echo "hpcdist: whether $hpcdist_unfound is linked with $1 is not known, so $2 is not set; if it is, set it by environment.env_vars" >&2
  hpcdist_unlinked=${hpcdist_unlinked:-}:$2
  return 1
}
# Whether a program of file $2 is, which $3 others run.
hpcdist_links() {
  local words word file is_first
  [[ -r $2 ]] && (($3 < 3)) || return
  while read -ra words || ((${#words[@]})); do # a command a line, without traps, which come before it, quotes, comments and redirections
    is_first=1
    for word in "${words[@]}"; do
      hpcdist_fill "$word"
      if [[ $is_first && $word =~ ^([A-Za-z_][A-Za-z0-9_]*)=(.*) ]]; then
        hpcdist_values[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
        continue
      elif [[ ! $is_first && ${words[0]} == cd ]]; then
        [[ $word == /* ]] || word=${hpcdist_folders[-1]}/$word
        hpcdist_folders+=("$word")
      elif file=$(hpcdist_program_of "$word"); then
        if [[ $(head -c 2 -- "$file" | tr -d '\0') == '#!' || $word == *.sh ]]; then
          [[ $(head -n 1 -- "$file") == *python* ]] || { hpcdist_links "$1" "$file" $(($3 + 1)) && return; }
        elif [[ $(ldd "$file" 2>/dev/null) == *"$1"* ]]; then
          return
        fi
      elif [[ $is_first ]]; then
        type -t -- "$word" >/dev/null || hpcdist_unfound=$word
      fi
      is_first=''
    done
  done < <(sed -E "/^trap /d; s/[\"']//g; s/(^|[[:blank:]])#.*//; s/&?[0-9]*[<>]+[&|]?/ /g; s/[;&|()]+/\n/g" -- "$2")
  return 1
}
# Puts the values of its variables into a word.
hpcdist_fill() {
  local try value
  word=$1
  for ((try = 0; try < 9; try++)); do
    [[ $word =~ \$\{?([A-Za-z_][A-Za-z0-9_]*)\}? ]] || return 0
    value=${hpcdist_values[${BASH_REMATCH[1]}]-${!BASH_REMATCH[1]-}}
    [[ $value ]] || return 0
    word=${word//"${BASH_REMATCH[0]}"/$value}
  done
}
# Prints the file of a word that may be a program.
hpcdist_program_of() {
  local folder
  type -P -- "$1" && return
  for folder in "${hpcdist_folders[@]}"; do
    [[ $1 != /* && -f $folder/$1 && (-x $folder/$1 || $1 == *.sh) ]] && echo "$folder/$1" && return
  done
  return 1
}
