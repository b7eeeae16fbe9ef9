"""Checks of the objects that the original service created from its bodies, and that this service must create."""

from __future__ import annotations

import json
from typing import Any

from tests.service import original


def check_config(config: dict[str, Any], release: str) -> None:
    """Check that the ConfigMap contains the filled values as JSON, in three parts."""
    filled = json.loads(original.FILLED)
    assert config["metadata"]["labels"]["mltask"] == "mltask"
    assert {key: json.loads(text) for key, text in config["data"].items()} == {
        "globalCfg": {
            "release": release,
            "taskDef": original.NAME,
            "application": "demo",
            "creator": "ducta",
            "name": "demo",
            "description": filled["description"],
        },
        "datasetCfg": {"endpoints": filled["endpoints"][:1]},
        "processCfg": filled["process"],
    }


def check_job(job: dict[str, Any], release: str, pull_policy: str = "Always") -> None:
    """Check that the Job has the names, labels, environment, mounts and limits of the description."""
    of_pod = {"taskDef": original.NAME, "release": release, "application": "demo", "mltask": "mltask"}
    assert job["metadata"]["labels"].items() >= {**of_pod, "creator": "ducta"}.items()
    assert job["spec"]["backoffLimit"] == 0
    template = job["spec"]["template"]
    assert template["metadata"]["labels"].items() >= of_pod.items()
    assert "creator" not in template["metadata"]["labels"]
    spec = template["spec"]
    assert (spec["restartPolicy"], spec.get("nodeSelector") or None) == ("Never", None)  # removed by the site
    (volume,) = spec["volumes"]
    assert volume == {"name": volume["name"], "persistentVolumeClaim": {"claimName": release}}
    (container,) = spec["containers"]
    assert (container["name"], container["tty"], container["imagePullPolicy"]) == (release, True, pull_policy)
    assert container["image"] == original.IMAGE
    variables = {
        f"{part.upper()}CFG": {"configMapKeyRef": {"name": release, "key": f"{part}Cfg"}}
        for part in ("global", "process", "dataset")
    }
    values = {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}
    assert values == {"STORAGE": f"/mount/{release}/", **variables}
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": f"/mount/{release}/"}]
    assert container["resources"] == {"limits": {"cpu": "200m", "memory": "512Mi"}}
