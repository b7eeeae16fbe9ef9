"""Tests that doctor and deploy report changes that webhooks make in pods."""

from __future__ import annotations

import base64
import ipaddress
import json
import socket
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from tests.certificates import self_signed
from tests.e2e.faults import faulty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

FIRST = "/spec/containers/0"


RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "operations": ["CREATE"],
    "scope": "Namespaced",
}


@contextmanager
def mutating(site: Site, patch: list[dict[str, Any]]) -> Iterator[None]:
    """Patch all pods that are created in the site's namespace, by operations of a JSON patch (RFC 6902)."""
    server_url = urlsplit(site.run("kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((server_url.hostname, server_url.port or 443))
        address = probe.getsockname()[0]
    name = f"mutating-{site.namespace}"
    authority = _certify(site.folder.parent / f"{name}.pem", address)
    with _served(site.folder.parent / f"{name}.pem", address, patch) as port:
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": f"{name}.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {"url": f"https://{address}:{port}/", "caBundle": authority},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}},
                    "rules": [RULE],
                }
            ],
        }
        site.apply(configuration)
        try:
            yield
        finally:
            site.run(f"kubectl delete mutatingwebhookconfiguration {name}")


@contextmanager
def _served(certificate: Path, address: str, patch: list[dict[str, Any]]) -> Iterator[int]:
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}
            body = json.dumps({**review, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print no line per request."""

    server = ThreadingHTTPServer((address, 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _certify(file: Path, address: str) -> str:
    """Write a key and a certificate for the address to a file, and return the certificate as a `caBundle`."""
    certificate, private = self_signed(x509.IPAddress(ipaddress.ip_address(address)))
    file.write_bytes(certificate + private)
    return base64.b64encode(certificate).decode()


def operation(path: str, value: Any, op: str = "add") -> dict[str, Any]:
    return {"op": op, "path": path, "value": value}


def test_doctor_lists_fields_that_a_webhook_changes(site: Site) -> None:
    package = faulty(site, "none", overlay="multi-node")
    patch = [
        operation("/spec/nodeSelector", {"disk": "ssd"}),
        operation(f"{FIRST}/resources/requests/cpu", "900"),
        operation("/metadata/labels/training.kubeflow.org~1job-role", "other"),
    ]
    with mutating(site, patch):
        examined = package.run("doctor", "-o", "json")
    findings = [(one["check"], one["state"], one["message"]) for one in json.loads(examined.out)["findings"]]
    for check, state, words in [
        ("nodes", "fails", "no label disk=ssd"),
        ("admission", "note", "spec.containers[worker].resources.requests.cpu: 10m -> 900"),
        ("admission", "note", "metadata.labels.training.kubeflow.org/job-role: worker -> other"),
    ]:
        assert [finding[:2] for finding in findings if words in finding[2]] == [(check, state)], findings
    assert examined.code == 1
