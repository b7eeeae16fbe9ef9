"""The faults of a JobSet, a Job or a Deployment, in a good package of the model beside this file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.broken.faults import Fault, appended, changed, edit, edits

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "every-kind"

SET = "quickstart/k8s/mlops/parameter-server"
SHARDS = "quickstart/k8s/mlops/shards"
JOBSET = f"{SET}/jobset.yaml"
JOB = f"{SHARDS}/job.yaml"

_ROLE = "spec.replicatedJobs.[name=^{0}$].template.spec.template.spec.containers.[name=^{0}$]"
COUNTED = [f"{_ROLE.format(role)}.env.[name=^DMLC_NUM_WORKER$].value" for role in ("scheduler", "server", "worker")]
"""The variables with the number of workers, as wiring.yaml names them."""


def _rename(package: Path) -> None:
    """Give the workloads a name with which those of the JobSet's pods are one character too long."""
    for path in package.glob("quickstart/**/*.yaml"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        renamed = (
            line if "app.kubernetes.io/" in line else line.replace(MODEL, "every-kind-of-workload-here")
            for line in lines
        )
        path.write_text("".join(renamed), encoding="utf-8")


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
    _fault("long-pod-name", _rename, JOBSET, "name: every-kind-of-workload-here"),
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
    _fault(
        "fewer-completions-than-pods",
        edits(
            (f"{SET}/wiring.yaml", "        - spec.replicatedJobs.[name=^worker$].template.spec.completions\n", ""),
            (JOBSET, "completions: 3 # WORKERS in mlops.env", "completions: 2"),
        ),
        JOBSET,
        "completions: 2",
    ),
    _changed("restarted-in-place", JOBSET, "restartPolicy: Never", "restartPolicy: OnFailure"),
    _fault("service-of-the-set", _service, f"{SET}/service.yaml", "kind: Service"),
    _fault(
        "number-of-other-pods",
        edits(
            *((f"{SET}/wiring.yaml", f"        - {variable}\n", "") for variable in COUNTED),
            (f"{SET}/mlops.env", "WORKERS=3", "WORKERS=4"),
        ),
        JOBSET,
        'value: "3"',
    ),
    _appended("variable-of-the-rendezvous", f"{SET}/mlops.env", "DMLC_NUM_WORKER=8\n"),
    _changed("job-without-a-log", JOB, "restartPolicy: Never", "restartPolicy: OnFailure"),
    _appended("index-for-all", f"{SHARDS}/mlops.env", "JOB_COMPLETION_INDEX=0\n"),
)
