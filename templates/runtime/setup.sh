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
    hpcdist_fail "a line of setup, or a file that it reads, defines a function that this script has too: environment, launch, found, start_processes, start_flux or resource_file"
  for name in $(compgen -e); do
    [[ ${hpcdist_before[$name]-} == "=${!name}" ]] || hpcdist_changed+=("$name")
  done
}
hpcdist_functions() { declare -f environment launch found start_processes start_flux resource_file; }
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
