# Sourced by a submitted script, with the digest of the run's files, the script's name, and what needs the supervisor.
# The supervisor takes the place of this shell, and runs the script anew for each attempt. It needs Python 3.6 or newer,
# on this host alone: that of HPCDIST_PYTHON, or the system's.
[[ ! -L $HPCDIST_RUN_DIR ]] || fail "$HPCDIST_RUN_DIR is not your own, but a link: submit it from a folder of your own"
{
  sha256sum --check --status <<<"$1  $HPCDIST_RUN_DIR/runtime/files" &&
    (cd "$HPCDIST_RUN_DIR/runtime" && sha256sum --check --status files)
} 2>/dev/null || fail "$HPCDIST_RUN_DIR/runtime was changed or cut short: submit the experiment again"
(cd "$HPCDIST_RUN_DIR" && sha256sum --check --status "${2%.sh}.sum") 2>/dev/null ||
  fail "$HPCDIST_RUN_DIR/$2 or its plan was changed or cut short: submit the experiment again"
for python in ${HPCDIST_PYTHON:+"$HPCDIST_PYTHON"} /usr/bin/python3 /usr/libexec/platform-python python3; do
  "$python" -ISB -c "import sys; sys.exit(sys.version_info < (3, 6))" 2>/dev/null || continue
  # shellcheck disable=SC2093 # the loop goes on only without one
  exec "$python" -ISB "$HPCDIST_RUN_DIR/runtime" "$HPCDIST_RUN_DIR" "${@:2}"
done
exec bash "$HPCDIST_RUN_DIR/runtime/unsupervised.sh" "${@:2}"
