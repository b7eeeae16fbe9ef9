"""Test of an imported model: an MXJob runs on JobSet, as a user that no image has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, Images

if TYPE_CHECKING:
    from typing import Any

    from tests.e2e.site import Site

# The scheduler and the servers begin to serve when mxnet is imported, and end with the workers.
WORKER = """\
import mxnet, json, os
store = mxnet.kv.create("dist_sync")
store.init("x", mxnet.nd.zeros(3))
store.push("x", mxnet.nd.ones(3) * (store.rank + 1))
total = mxnet.nd.zeros(3)
store.pull("x", out=total)
print(json.dumps({"rank": store.rank, "workers": store.num_workers, "sum": float(total[0].asscalar()),
    "uid": os.getuid(), "steps": os.environ["STEPS"]}), flush=True)
"""
RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


@pytest.mark.thorough
@pytest.mark.trains
def test_imported_mxjob_runs_one_scheduler_two_servers_and_three_workers(site: Site, images: Images) -> None:
    image = images.build(CHECKOUT / "model_specs/cifar10-mxnet", "localhost/mxnet:1.9.1")
    container: dict[str, Any] = {
        "name": "mxnet",
        "image": image,
        "command": ["python3", "-c", WORKER],
        "resources": RESOURCES,
    }
    container["env"] = [{"name": "STEPS", "value": "7"}]
    template = {"spec": {"containers": [container]}}
    roles = {"Scheduler": 1, "Server": 2, "Worker": 3}
    specs = {role: {"replicas": count, "restartPolicy": "Never", "template": template} for role, count in roles.items()}
    job: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "MXJob", "metadata": {"name": "sums"}}
    job["spec"] = {"jobMode": "MXTrain", "mxReplicaSpecs": specs}
    (site.folder / "job.yaml").write_text(json.dumps(job), encoding="utf-8")
    site.run("mlpack import mxjob job.yaml")
    package = site.build("./sums")
    site.run(f"mlpack configure {package} --uid 12345 --gid 12345")
    site.run(f"mlpack verify {package} --pod-security restricted")
    site.run(f"mlpack deploy {package} --timeout 10m", timeout=660)
    pods = f"--selector=jobset.sigs.k8s.io/jobset-name={package.name}-dist"
    # A JobSet that has succeeded deletes the pods that have not ended yet, such as the scheduler's.
    events = site.run("kubectl get events --field-selector=reason=SuccessfulCreate -o jsonpath='{..message}'")
    counts = {"scheduler": 1, "server": 2, "worker": 3}
    assert {role: events.count(f"Created pod: {package.name}-dist-{role}-0-") for role in counts} == counts
    workers = f"{pods},jobset.sigs.k8s.io/replicatedjob-name=worker"
    lines = site.run(f"kubectl logs {workers} --tail=-1").splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    expected = [{"rank": rank, "workers": 3, "sum": 6.0, "uid": 12345, "steps": "7"} for rank in range(3)]
    assert sorted(results, key=lambda result: int(result["rank"])) == expected
    site.run(f"mlpack delete {package} -y")
