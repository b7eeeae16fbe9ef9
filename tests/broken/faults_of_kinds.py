"""The faults of a JobSet, a Job or a Deployment, in a good package of the model beside this file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.broken.faults import Fault, appended, changed, edit

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "every-kind"

SET = "quickstart/k8s/mlops/parameter-server"
SHARDS = "quickstart/k8s/mlops/shards"
JOBSET = f"{SET}/jobset.yaml"


def _service(package: Path) -> None:
    (package / SET / "service.yaml").write_text(
        f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {MODEL}\nspec:\n  ports:\n    - port: 80\n",
        encoding="utf-8",
    )
    edit(f"{SET}/kustomization.yaml", "  - jobset.yaml\n", "  - jobset.yaml\n  - service.yaml\n")(package)


_fault = partial(Fault, model=MODEL)
_changed = partial(changed, model=MODEL)
_appended = partial(appended, model=MODEL)

FAULTS_OF_KINDS = (
    _changed(
        "waits-for-a-later-role",
        JOBSET,
        "    - name: scheduler\n",
        "    - name: scheduler\n      dependsOn: [{name: worker, status: Ready}]\n",
        line="dependsOn:",
    ),
    _changed("misspelt-operator", JOBSET, "operator: All", "operator: all"),
    _changed(
        "long-address-of-a-coordinator",
        JOBSET,
        "  replicatedJobs:\n",
        "  coordinator: {replicatedJob: scheduler}\n  replicatedJobs:\n",
        line="coordinator:",
    ),
    _fault("service-of-the-set", _service, f"{SET}/service.yaml", "kind: Service"),
    _appended("variable-of-the-rendezvous", f"{SET}/mlops.env", "DMLC_NUM_WORKER=8\n"),
    _appended("index-for-all", f"{SHARDS}/mlops.env", "JOB_COMPLETION_INDEX=0\n"),
)
