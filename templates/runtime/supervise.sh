# Sourced by a submitted script, with the digest of the run's files, the script's name, and what needs the supervisor.
# The supervisor takes the place of this shell, and runs the script anew for each attempt. It needs Python 3.6 or newer,
# on this host alone: that of HPCDIST_PYTHON, or the system's.
[[ ! -L $HPCDIST_RUN_DIR ]] || fail "$HPCDIST_RUN_DIR is not your own, but a link: submit it from a folder of your own"
changed=$(cd "$HPCDIST_RUN_DIR" && sha256sum --check --quiet - runtime/files "${2%.sh}.sum" <<<"$1  runtime/files" 2>/dev/null) ||
  fail "$HPCDIST_RUN_DIR was changed or cut short${changed:+ (${changed%%:*})}: submit the experiment again"
for python in ${HPCDIST_PYTHON:+"$HPCDIST_PYTHON"} /usr/bin/python3 /usr/libexec/platform-python python3; do
  for version in "$python".{6..30} ""; do # /usr/bin/python3.11 tells what is else to be asked
    [[ ! -x $version || ! $version -ef $python ]] || break
  done
  [[ $version ]] || "$python" -ISB -c "import sys; sys.exit(sys.version_info < (3, 6))" 2>/dev/null || continue
  # shellcheck disable=SC2093 # the loop goes on only without one
  exec "$python" -ISB "$HPCDIST_RUN_DIR/runtime" "$HPCDIST_RUN_DIR" "${@:2}"
done
exec bash "$HPCDIST_RUN_DIR/runtime/unsupervised.sh" "${@:2}"
