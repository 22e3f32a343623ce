"""Variables that Azure sets for a command, and their equivalents here."""

from __future__ import annotations

import re
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.azure.layout import settings_sections
from hpcdist.importers.container import export_hint
from hpcdist.importers.reading import Reading

_EQUIVALENTS: Final = {
    "AZ_BATCHAI_MPI_MASTER_NODE": "$HPCDIST_HEAD_ADDRESS",
    "AZ_BATCH_MASTER_NODE": "$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT",
    "AZUREML_NODE_COUNT": "$HPCDIST_NODES",
    "AZUREML_MPI_HOSTFILE": "$HPCDIST_HOSTFILE",
    **dict.fromkeys(("AZUREML_RUN_ID", "AZUREML_ROOT_RUN_ID", "AZ_BATCH_JOB_ID"), "$HPCDIST_JOB_ID"),
}
_NAME: Final = re.compile(
    r"(?<!\w)(?:AZUREML_[A-Z\d_]+|AZ_BATCH(?:AI)?_[A-Z\d_]+"
    r"|MLFLOW_(?:TRACKING_TOKEN|RUN_ID|EXPERIMENT_(?:ID|NAME)))(?!\w)"
)
"""Names that Azure sets, by prefix; it documents only those of its machines and of MLflow.

https://learn.microsoft.com/azure/batch/batch-compute-node-environment-variables,
https://learn.microsoft.com/azure/machine-learning/how-to-use-mlflow-configure-tracking
"""


def warn_of_variables(read: Reading, command: str, path: Path) -> None:
    """Warn of variables in a command that neither the file nor the command sets."""
    sections: list[Path] = [(), *((name,) for name in settings_sections(read))]
    given = {name for section in sections for name in read.keys(*section, "environment_variables")}
    used = dict.fromkeys(_NAME.findall(command))
    unset = [name for name in used if name not in given and not re.search(rf"\b{name}=", command)]
    for name in unset:
        if name in _EQUIVALENTS:
            read.warn(*path, why=f"{name} is set on Azure only, not here", hint=f"write {_EQUIVALENTS[name]}")
    if lost := [name for name in unset if name not in _EQUIVALENTS]:
        verb = "is" if len(lost) == 1 else "are"
        hint = f"write the value itself, or {export_hint('it')}"
        read.warn(*path, why=f"{', '.join(lost)} {verb} set on Azure only, not here", hint=hint)
