"""Tests of imported models: an MXJob runs on JobSet, and a training of Intel's zoo, as a user that no image has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, Images, last_json

if TYPE_CHECKING:
    from pathlib import Path
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

SCRIPT = """\
#!/usr/bin/env bash
# A wrapper as in the zoo: it sources a library, and starts a program of the package.
set -e
MODEL_DIR=${MODEL_DIR-$PWD}
source "${MODEL_DIR}/quickstart/common/utils.sh"
require DATASET_DIR
python3 "${MODEL_DIR}/benchmarks/train.py" --steps STEPS
"""
UTILS = 'require() { [ -n "${!1+set}" ] || { echo "$1 is not set" >&2; exit 1; }; }\n'
TRAIN = """\
import json, os, sys
import tensorflow as tf
layer = tf.keras.layers.Dense(1)
x = tf.random.normal((64, 4))
optimizer = tf.keras.optimizers.SGD(0.1)
for step in range(int(sys.argv[2])):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((layer(x) - tf.reduce_sum(x, axis=1, keepdims=True)) ** 2)
    first = float(loss) if not step else first
    gradients = tape.gradient(loss, layer.trainable_variables)
    optimizer.apply_gradients(zip(gradients, layer.trainable_variables))
print(json.dumps({"steps": step + 1, "fell": float(loss) < first, "uid": os.getuid(), "where": os.getcwd()}))
"""
ZOO = {
    "models/train.py": TRAIN,
    "quickstart/common/utils.sh": UTILS,
    "quickstart/tiny/fp32_training.sh": SCRIPT.replace("STEPS", "5"),
    "quickstart/tiny/fp32_training_demo.sh": SCRIPT.replace("STEPS", "2"),
    "tools/docker/specs/tensorflow/tiny_spec.yml": """\
releases: {versioned: {tag_specs: ["{tiny}"]}}
slice_sets:
  tiny:
    - args: [PACKAGE_NAME=tiny-fp32-training]
      documentation: {text_replace: {<docker image>: "localhost/tensorflow-mpi:2.21.0"}}
      files:
        - {source: models, destination: benchmarks}
        - {source: quickstart/common, destination: quickstart/common}
        - {source: quickstart/tiny, destination: quickstart}
""",
}


def unpacked(site: Site, model: str) -> Path:
    """Build an imported model for uid 12345, verify it against "restricted", and return its folder."""
    package = site.build(model)
    site.run(f"mlpack configure {package} --uid 12345 --gid 12345")
    site.run(f"mlpack verify {package} --pod-security restricted")
    return package


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
    package = unpacked(site, "./sums")
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


@pytest.mark.trains
def test_imported_zoo_training_runs_with_both_wrappers(site: Site, tensorflow_image: str) -> None:
    assert tensorflow_image
    for name, content in ZOO.items():
        path = site.folder / "zoo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    site.run("mlpack import intel zoo/tools/docker/specs/tensorflow/tiny_spec.yml -o models")
    package = unpacked(site, "./models/tiny-fp32-training")
    assert package.name == "tiny-fp32-training"
    for script, steps in ((None, 5), ("fp32_training_demo.sh", 2)):
        if script:
            site.run(f"mlpack configure {package} --set SCRIPT=run/{script}")
        site.run(f"mlpack deploy {package} --timeout 10m", timeout=660)
        result = last_json(site.run(f"mlpack logs {package}"))
        assert (result["steps"], result["fell"], result["uid"]) == (steps, True, 12345)
        site.run(f"mlpack delete {package} -y")
