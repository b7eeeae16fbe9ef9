"""Test that pods fetch the sources of their spec from servers, under "restricted", and report why they cannot.

The image has the official clients of the stores: huggingface_hub, botocore and oras. The tests of the script itself
check that it fetches the same without them.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509

from tests.certificates import self_signed
from tests.e2e.site import CHECKOUT, Images

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.e2e.site import Site

IMAGE = "localhost/clients:1"
TEXT = "fetched by the pod\n"
COMMIT = "0" * 40
SPEC: dict[str, Any] = {
    "name": "sources",
    "title": "Sources",
    "framework": "python",
    "image": {"registry": "localhost", "name": "clients", "tag": "1"},
    "files": ["show.py", "ca.crt"],
    "environment": {
        "HF_ENDPOINT": "http://server:8000",
        "AWS_ENDPOINT_URL": "http://server:8000",
        "SSL_CERT_FILE": "ROOT/sources/quickstart/scripts/ca.crt",
    },
    "secrets": {name: {"description": "A key of S3."} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")},
    "overlays": {"single-node": {"kind": "Pod"}},
    "variants": [{"script": "show.py", "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}}}],
}


SERVER = """
import functools, hashlib, http.server, json, ssl, threading
class Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        if "/resolve/" in self.path:  # as the hub answers for a file in LFS
            with open(self.translate_path(self.path), "rb") as file:
                self.send_header("ETag", json.dumps(hashlib.sha256(file.read()).hexdigest()))
            self.send_header("X-Repo-Commit", "0" * 40)
        super().end_headers()
    def log_message(self, *_):
        print(self.path, self.headers["User-Agent"], flush=True)
serving = functools.partial(Handler, directory="/files")
plain, encrypted = (http.server.ThreadingHTTPServer(("", port), serving) for port in (8000, 8443))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/files/tls.crt", "/files/tls.key")
encrypted.socket = context.wrap_socket(encrypted.socket, server_side=True)
threading.Thread(target=plain.serve_forever).start()
encrypted.serve_forever()
"""
PROGRAM = """#!/usr/bin/env python3
import os
print("user", os.getuid())
for variable in ("DATASET_DIR", "OUTPUT_DIR"):
    for folder, _, names in sorted(os.walk(os.environ[variable])):
        for name in sorted(name for name in names if not name.startswith(".mlpack-")):
            with open(os.path.join(folder, name)) as file:
                print(os.path.relpath(os.path.join(folder, name), os.environ[variable]), file.read())
try:
    open(os.path.join(os.environ["DATASET_DIR"], "own"), "w")
except OSError as error:
    print(error.strerror)
os.symlink("/dev/full", os.path.join(os.environ["OUTPUT_DIR"], ".mlpack-full.part"))  # a full disk for one file
"""


def sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def artefact(content: str) -> str:
    """Return the manifest of an artefact with one layer, which claims this content."""
    title = {"org.opencontainers.image.title": "layer.txt"}
    layer = {"digest": f"sha256:{sha256(content)}", "size": len(content), "annotations": title}
    return json.dumps({"schemaVersion": 2, "layers": [layer]})


def serve(site: Site, files: dict[str, str], certificate: tuple[bytes, bytes]) -> str:
    """Start a pod that serves files by http and https under the name `server`, and return its address."""
    data = {**files, "tls.crt": certificate[0].decode(), "tls.key": certificate[1].decode()}
    items = [{"key": f"file-{number}", "path": path} for number, path in enumerate(data)]
    volume = {"name": "files", "configMap": {"name": "files", "items": items}}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python3", "-c", SERVER],
        "volumeMounts": [{"name": "files", "mountPath": "/files"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET"}
    contents = {f"file-{number}": content for number, content in enumerate(data.values())}
    site.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": contents},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sources"}, "stringData": keys},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "server"},
            "spec": {"selector": {"app": "server"}, "clusterIP": "None"},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "server", "labels": {"app": "server"}},
            "spec": {"containers": [container], "volumes": [volume], "securityContext": security},
        },
    )
    site.run("kubectl wait --for=condition=Ready --timeout=120s pod/server")
    return f"http://{site.get('pod server')['status']['podIP']}:8000"


def deploy(site: Site, model: Path, claim: str, *sources: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Build the package with sources, and deploy it as user 12345."""
    (model / "spec.yaml").write_text(json.dumps({**SPEC, "sources": sources}))
    site.run("rm -rf sources*")
    package = site.build("./model", "--root /srv", claim)
    site.run(f"mlpack configure {package} --uid 12345 --gid 12345")
    return site.shell(f"mlpack deploy -y --replace {package}")


@pytest.mark.thorough
def test_pods_fetch_sources_of_each_kind_as_their_user(site: Site, images: Images, claim: str) -> None:
    images.build(CHECKOUT / "tests/e2e/specs/clients", IMAGE)
    certificate = self_signed(x509.DNSName("server"))
    good = artefact("from a registry")
    files = {
        "text": TEXT,
        f"api/models/o/n/tree/{COMMIT}": json.dumps(
            [{"type": "file", "path": "a.txt", "size": 10, "lfs": {"oid": sha256("from a hub")}}]
        ),
        f"o/n/resolve/{COMMIT}/a.txt": "from a hub",
        "bucket/key.txt": "from a bucket",
        f"v2/team/x/manifests/sha256:{sha256(good)}": good,
        f"v2/team/x/blobs/sha256:{sha256('from a registry')}": "from a registry",
    }
    address = serve(site, files, certificate)
    model = site.folder / "model"
    model.mkdir()
    (model / "show.py").write_text(PROGRAM)
    (model / "ca.crt").write_bytes(certificate[0])
    deployed = deploy(
        site,
        model,
        claim,
        {"from": f"{address}/text", "to": "DATASET_DIR/text", "size": len(TEXT), "sha256": sha256(TEXT)},
        {"from": f"hf://o/n@{COMMIT}", "to": "DATASET_DIR", "size": 100},
        {"from": "s3://bucket/key.txt", "to": "OUTPUT_DIR/key.txt", "size": 13, "sha256": sha256("from a bucket")},
        {"from": f"oci://server:8443/team/x@sha256:{sha256(good)}", "to": "OUTPUT_DIR/artefact", "size": 100},
    )
    assert deployed.returncode == 0, deployed.stderr
    assert site.log("sources-single-node").splitlines() == [
        "user 12345",
        "a.txt from a hub",
        f"text {TEXT.strip()}",
        "",
        "key.txt from a bucket",
        "artefact/layer.txt from a registry",
        "Read-only file system",
    ]
    requests = site.log("server")
    for path, client in (
        (f"/o/n/resolve/{COMMIT}/a.txt", "hf_hub/"),
        ("/bucket/key.txt", "otocore/"),
        (f"/v2/team/x/blobs/sha256:{sha256('from a registry')}", "python-requests/"),
        ("/text", "Python-urllib/"),
    ):
        assert re.search(f"^{path} .*{client}", requests, re.MULTILINE), requests
    changed = {"from": f"{address}/text", "to": "DATASET_DIR/a", "size": len(TEXT), "sha256": "0" * 64}
    wrong = f"wrong digest: expected sha256 {'0' * 64}, found {sha256(TEXT)}"
    full = {"from": f"{address}/text", "to": "OUTPUT_DIR/full", "size": len(TEXT), "sha256": sha256(TEXT)}
    for source, reason in (
        (changed, f"{address}/text: {wrong}"),
        (full, f"{address}/text: /srv/sources/output/full: no space left"),
    ):
        failed = deploy(site, model, claim, source)
        assert failed.returncode == 7
        assert f"pod/sources-single-node: container init has not fetched a source: {reason}" in failed.stderr
        status = site.shell("mlpack status sources -o json")
        assert [finding["reason"] for finding in json.loads(status.stdout)["findings"]] == ["NotFetched"]
