"""The faults of a JobSet, a Job or a Deployment, in a good package of the model beside this file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.broken.faults import Fault, append, edit, edits

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "every-kind"

SET = "quickstart/k8s/mlops/parameter-server"
SHARDS = "quickstart/k8s/mlops/shards"
SERVING = "quickstart/k8s/mlops/serving"
JOBSET = f"{SET}/jobset.yaml"
JOB = f"{SHARDS}/job.yaml"
DEPLOYMENT = f"{SERVING}/deployment.yaml"

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


def _order_twice(package: Path) -> None:
    edit(JOBSET, "  replicatedJobs:\n", "  startupPolicy: {startupPolicyOrder: InOrder}\n  replicatedJobs:\n")(package)
    depends = "      dependsOn: [{name: scheduler, status: Ready}]\n"
    edit(JOBSET, "    - name: server\n", f"    - name: server\n{depends}")(package)


_fault = partial(Fault, model=MODEL)

FAULTS_OF_KINDS = (
    _fault(
        "long-pod-name",
        "JobSet refuses the set",
        _rename,
        JOBSET,
        "name: every-kind-of-workload-here",
    ),
    _fault(
        "success-of-no-role",
        "JobSet refuses the set",
        edit(JOBSET, "      - worker\n", "      - workers\n"),
        JOBSET,
        "- workers",
    ),
    _fault(
        "waits-for-a-later-role",
        "JobSet refuses the set",
        edit(
            JOBSET,
            "    - name: scheduler\n",
            "    - name: scheduler\n      dependsOn: [{name: worker, status: Ready}]\n",
        ),
        JOBSET,
        "dependsOn:",
    ),
    _fault("ordered-twice", "JobSet refuses the set", _order_twice, JOBSET, "dependsOn:"),
    _fault(
        "more-pods-than-a-number-holds",
        "JobSet refuses the set",
        edit(JOBSET, "    - name: server\n      replicas: 1 ", "    - name: server\n      replicas: 2000000000 "),
        JOBSET,
        "replicas: 2000000000",
    ),
    _fault(
        "misspelt-operator",
        "the API server refuses the set",
        edit(JOBSET, "operator: All", "operator: all"),
        JOBSET,
        "operator: all",
    ),
    _fault(
        "long-address-of-a-coordinator",
        "JobSet refuses the set",
        edit(JOBSET, "  replicatedJobs:\n", "  coordinator: {replicatedJob: scheduler}\n  replicatedJobs:\n"),
        JOBSET,
        "coordinator:",
    ),
    _fault(
        "fewer-completions-than-pods",
        "the last worker never starts, and the others wait for it",
        edits(
            (f"{SET}/wiring.yaml", "        - spec.replicatedJobs.[name=^worker$].template.spec.completions\n", ""),
            (JOBSET, "completions: 3 # WORKERS in mlops.env", "completions: 2"),
        ),
        JOBSET,
        "completions: 2",
    ),
    _fault(
        "restarted-in-place",
        "a failed pod is deleted, and its log with it",
        edit(JOBSET, "restartPolicy: Never", "restartPolicy: OnFailure"),
        JOBSET,
        "restartPolicy: OnFailure",
    ),
    _fault(
        "service-of-the-set",
        "our Service takes the name of the one that gives the pods their names",
        _service,
        f"{SET}/service.yaml",
        f"name: {MODEL}",
    ),
    _fault(
        "number-of-other-pods",
        "the pods wait without end, or leave the new one out",
        edits(
            *((f"{SET}/wiring.yaml", f"        - {variable}\n", "") for variable in COUNTED),
            (f"{SET}/mlops.env", "WORKERS=3", "WORKERS=4"),
        ),
        JOBSET,
        'value: "3"',
    ),
    _fault(
        "variable-of-the-rendezvous",
        "the pods ignore a value that was set",
        append(f"{SET}/mlops.env", "DMLC_NUM_WORKER=8\n"),
        f"{SET}/mlops.env",
        "DMLC_NUM_WORKER=8",
    ),
    _fault(
        "job-without-end",
        "the API server refuses the Job",
        edit(JOB, "restartPolicy: Never", "restartPolicy: Always"),
        JOB,
        "restartPolicy: Always",
    ),
    _fault(
        "job-without-a-log",
        "the failed pod is deleted, and its log with it",
        edit(JOB, "restartPolicy: Never", "restartPolicy: OnFailure"),
        JOB,
        "restartPolicy: OnFailure",
    ),
    _fault(
        "array-without-a-size",
        "the API server refuses the Job",
        edits(
            (f"{SHARDS}/wiring.yaml", "- spec.completions\n", "- spec.parallelism\n"),
            (JOB, "  completions: 4 # COMPLETIONS in mlops.env\n", ""),
        ),
        JOB,
        "completionMode: Indexed",
    ),
    _fault(
        "index-for-all",
        "the pods ignore a value that was set",
        append(f"{SHARDS}/mlops.env", "JOB_COMPLETION_INDEX=0\n"),
        f"{SHARDS}/mlops.env",
        "JOB_COMPLETION_INDEX=0",
    ),
    _fault(
        "selector-of-other-pods",
        "the API server refuses the Deployment",
        edit(DEPLOYMENT, "instance: every-kind-serving", "instance: every-kind-server"),
        DEPLOYMENT,
        "instance: every-kind-server",
    ),
    _fault(
        "no-room-to-roll",
        "the API server refuses the Deployment",
        edit(DEPLOYMENT, "maxSurge: 1", "maxSurge: 0"),
        DEPLOYMENT,
        "maxUnavailable: 0",
    ),
    _fault(
        "probe-of-no-port",
        "no pod ever becomes ready",
        edit(DEPLOYMENT, "port: http\n", "port: htpp\n"),
        DEPLOYMENT,
        "port: htpp",
    ),
    _fault(
        "service-to-no-port",
        "no request reaches the pods",
        edit(f"{SERVING}/service.yaml", "targetPort: http", "targetPort: htpp"),
        f"{SERVING}/service.yaml",
        "targetPort: htpp",
    ),
)
