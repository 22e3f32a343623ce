"""Rules about Open MPI's parameters, by its major version; none apply where that is unknown.

Component lists of the tags v4.1.6, v5.0.9 and v5.0.10; ``docs/mca.rst`` of open-mpi/ompi @ 8efebee745.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.lint.finding import Finding, finding_on
from hpcdist.lint.others import MPI_SOURCE
from hpcdist.plan.values import Variable

_OF_PRRTE: Final = ("orte_", "plm_", "ras_", "rmaps_", "odls_", "ess_", "iof_", "hwloc_base_binding_policy")
"""How parameters begin that went from Open MPI to PRRTE, its launcher, in 5.0."""
_PRRTE: Final = 5
_NO_HCOLL: Final = 6


def open_mpi_findings(variable: Variable, major: int) -> Iterator[Finding]:
    """Yield what this version of Open MPI does not read."""
    name = variable.name.removeprefix("OMPI_MCA_")
    words = variable.value.removeprefix("^").split(",")
    if variable.name.startswith(("PRTE_MCA_", "PMIX_MCA_")):
        if major < _PRRTE:
            happens = f"only Open MPI 5 and later read it, and this is {major}"
            yield finding_on(
                variable, happens, f"write OMPI_MCA_{variable.name.partition('_MCA_')[2]}", MPI_SOURCE
            )
    elif not variable.name.startswith("OMPI_MCA_"):
        return
    elif name.startswith(_OF_PRRTE) and major >= _PRRTE:
        happens = f"since 5.0 it is a parameter of PRRTE, and this is Open MPI {major}"
        yield finding_on(variable, happens, f"write PRTE_MCA_{name.removeprefix('orte_')}", MPI_SOURCE)
    elif name == "btl" and major >= _PRRTE and (gone := {"openib", "vader"} & set(words)):
        instead = "remove openib: UCX does its work" if "openib" in gone else "write sm instead of vader"
        yield finding_on(
            variable, f"Open MPI {major} has no {' and no '.join(sorted(gone))}", instead, MPI_SOURCE
        )
    elif name == "btl" and major < _PRRTE and "sm" in words and not variable.value.startswith("^"):
        yield finding_on(
            variable, f"in Open MPI {major} shared memory is `vader`", "write vader instead of sm", MPI_SOURCE
        )
    elif name == "coll_hcoll_enable" and major >= _NO_HCOLL:
        yield finding_on(variable, f"Open MPI {major} has no hcoll any more", "remove it", MPI_SOURCE)
