"""Creates keys, certificates and kubeconfigs (https://kubernetes.io/docs/setup/best-practices/certificates/).

One authority signs all certificates. The subject identifies a client to the API server: CN is the user, O a group.
"""

import base64
from pathlib import Path

import yaml

from tests.testbed.node import API_PORT
from tests.testbed.process import run

CONTEXT = "mlpack-test"

SERVICE = "10.96.0.1"
"""The address of the API server for pods: the first address for Services, which `config/node.sh` contains, too."""

_SUBJECTS = {
    "admin": "/O=system:masters/CN=admin",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kubelet": "/O=system:nodes/CN=system:node:node",  # by which the node authorizer knows the kubelet of `node`
}


def write_credentials(folder: Path, *, inside: str, outside: str) -> None:
    """Write the credentials that the node reads from /run/credentials.

    Args:
        folder: The folder to write to.
        inside: The API server's address on the node, for its components.
        outside: The API server's address for the machine.
    """
    folder.chmod(0o700)
    (folder / "openssl.cnf").write_text("[req]\ndistinguished_name = subject\n[subject]\n")
    _certify(folder, "ca", "/CN=mlpack-test", "basicConstraints=critical,CA:TRUE")
    addresses = f"IP:{inside},IP:{outside},IP:{SERVICE},IP:127.0.0.1"
    _certify(folder, "kube-apiserver", "/CN=kube-apiserver", f"subjectAltName={addresses},DNS:kubernetes.default.svc")
    for operator in ("jobset", "kueue", "lws"):
        (folder / operator).mkdir()
        _certify(folder, f"{operator}/tls", f"/CN={operator}-webhook", "subjectAltName=IP:127.0.0.1")
    for client, subject in _SUBJECTS.items():
        _certify(folder, client, subject, "extendedKeyUsage=clientAuth")
        (folder / f"{client}.conf").write_text(kubeconfig(folder, client, inside))
    # A key in the form that the API server reads the public half out of as well.
    key = ["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout"]
    run([*key, "-out", folder / "service-accounts.key"])


def _certify(folder: Path, name: str, subject: str, extension: str) -> None:
    """Create a key and its certificate, signed by the authority; the certificate of the authority is self-signed."""
    command: list[str | Path] = ["openssl", "req", "-x509", "-config", folder / "openssl.cnf", "-days", "3650"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", subject, "-addext", extension]
    command += ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
    if name != "ca":
        command += ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"]
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    run(command)


def kubeconfig(folder: Path, client: str, address: str) -> str:
    """Return a kubeconfig that contains its certificates and key.

    Args:
        folder: The folder of the credentials.
        client: The name of the client certificate.
        address: The address of the API server.
    """

    def inline(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    cluster = {"server": f"https://{address}:{API_PORT}", "certificate-authority-data": inline("ca.crt")}
    user = {"client-certificate-data": inline(f"{client}.crt"), "client-key-data": inline(f"{client}.key")}
    context = {"cluster": CONTEXT, "user": client, "namespace": "default"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": client, "user": user}],
            "contexts": [{"name": CONTEXT, "context": context}],
            "current-context": CONTEXT,
        },
        sort_keys=False,
    )
