"""Test that pods fetch the sources of their spec from a server, under "restricted", and report why they cannot."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

from tests.e2e.site import CHECKOUT, Images

if TYPE_CHECKING:
    from tests.e2e.site import Site

IMAGE = "localhost/requirements:1"
TEXT = "fetched by the pod\n"
SPEC: dict[str, Any] = {
    "name": "sources",
    "title": "Sources",
    "framework": "python",
    "image": {"registry": "localhost", "name": "requirements", "tag": "1"},
    "files": ["show.py"],
    "overlays": {"single-node": {"kind": "Pod"}},
    "variants": [{"script": "show.py", "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "128Mi"}}}],
}


def serve(site: Site) -> str:
    """Start a pod that serves TEXT by http, and return its address."""
    volume = {"name": "files", "configMap": {"name": "files"}}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python3", "-m", "http.server", "8000", "--directory", "/files"],
        "volumeMounts": [{"name": "files", "mountPath": "/files"}],
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    site.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"text": TEXT}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "server"},
            "spec": {"containers": [container], "volumes": [volume], "securityContext": security},
        },
    )
    site.run("kubectl wait --for=condition=Ready --timeout=120s pod/server")
    return f"http://{site.get('pod server')['status']['podIP']}:8000"


def test_pods_fetch_sources_before_their_program(site: Site, images: Images) -> None:
    images.build(CHECKOUT / "tests/e2e/specs/requirements", IMAGE)
    model = shutil.copytree(CHECKOUT / "tests/e2e/specs/sources", site.folder / "model")
    source = {"from": f"{serve(site)}/text", "to": "OUTPUT_DIR/data/text", "size": len(TEXT)}
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    (model / "spec.yaml").write_text(json.dumps({**SPEC, "sources": [{**source, "sha256": digest}]}))
    package = site.build("./model")
    deployed = site.shell(f"mlpack deploy -y {package}")
    assert (deployed.returncode, site.log("sources-single-node")) == (0, TEXT), deployed.stderr
    assert site.log("sources-single-node", "init") == f"sources: text is fetched: {len(TEXT)} bytes\n"

    (model / "spec.yaml").write_text(json.dumps({**SPEC, "sources": [{**source, "sha256": "0" * 64}]}))
    site.run(f"rm -r {package}*")
    failed = site.shell(f"mlpack deploy -y --replace {site.build('./model')}")
    assert failed.returncode == 7
    assert f"wrong digest: expected sha256 {'0' * 64}, found {digest}" in failed.stderr
