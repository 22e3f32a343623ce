"""Commands of Azure ML with the lines that hpcdist puts before them."""

from __future__ import annotations

_HIDDEN = (
    "[[ ${HPCDIST_RANK:-0} != 0 || ! -e $OLDPWD/outputs && ! -e $OLDPWD/logs ]] || "
    'echo "./outputs and ./logs are those of $HPCDIST_OUTPUTS, and not of $OLDPWD" >&2'
)
_MLFLOW = (
    'export MLFLOW_TRACKING_URI="${MLFLOW_TRACKING_URI:-file:$HPCDIST_OUTPUTS/mlruns-${HPCDIST_RANK:-0}}" '
    "MLFLOW_ALLOW_FILE_STORE=true"
)
_LINKS = (
    '(shopt -s dotglob nullglob; ln -sn "$HPCDIST_OUTPUTS" outputs; ln -sn "$HPCDIST_OUTPUTS/logs" logs; '
    'ln -s "$OLDPWD"/* .) 2>/dev/null'
)


def prepared(command: str, *outputs: str, before: tuple[str, ...] = ()) -> str:
    """Return a command that runs in its own directory; ``outputs`` are the folders that it writes."""
    folders = " ".join(f'"$HPCDIST_OUTPUTS/{name}"' for name in ("logs", *outputs))
    made = f'mkdir -p {folders} "$HPCDIST_JOB_DIR/code/$HPCDIST_NODE" && cd "$_" || exit'
    return "\n".join([*before, made, _HIDDEN, _MLFLOW, _LINKS, command])
