"""Registries with TLS on this machine, which the node of `tests/testbed` can pull from."""

from __future__ import annotations

import ipaddress
import json
import secrets
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.values import as_dict
from packager.base.web import Network
from packager.publish.artefact import MANIFEST, descriptor
from packager.publish.client import Access
from packager.publish.reference import parse
from packager.publish.registry import Repository
from tests.e2e.site import CHECKOUT
from tests.publish import real_registry
from tests.testbed import dockerfiles, node
from tests.testbed.places import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER = "/run/config/registries"  # as in config/containerd.toml


@dataclass(frozen=True)
class ClusterRegistry:
    """A registry that runs.

    Attributes:
        host: The host, for this machine and the node.
        certificate: The file with its certificate.
    """

    host: str
    certificate: Path

    def store(self, repository: str, tag: str, folder: Path = CHECKOUT / "model_specs/hello-mpi") -> str:
        """Store the image of a folder with a label that no other image has; return the digest of its manifest."""
        with tarfile.open(dockerfiles.build(folder)) as archive:

            def read(name: str) -> bytes:
                stream = archive.extractfile(name)
                assert stream is not None
                return stream.read()

            (entry,) = json.loads(read("index.json"))["manifests"]
            value = json.loads(read(f"blobs/{entry['digest'].replace(':', '/')}"))
            config, *layers = [
                read(f"blobs/{part['digest'].replace(':', '/')}") for part in (value["config"], *value["layers"])
            ]
        labelled = json.loads(config)
        labelled["config"]["Labels"] = {"test": secrets.token_hex(8)}
        changed = json.dumps(labelled).encode()
        value["config"] |= as_dict(descriptor(changed))
        value["mediaType"] = MANIFEST
        access = Access(Network(ca_file=str(self.certificate)))
        with Repository(parse(f"oci://{self.host}/{repository}:{tag}"), access, may_push=True) as registry:
            for content in (*layers, changed):
                registry.upload(descriptor(content), content)
            registry.put_manifest(tag, json.dumps(value).encode())
            digest = registry.digest_of(tag)
        assert digest is not None
        return digest


@contextmanager
def serving(folder: Path) -> Iterator[ClusterRegistry]:
    """Start a registry that containerd trusts by its certificate, and stop it at the end; `folder` has its files."""
    address = str(ipaddress.ip_address(node.address()) - 1)  # this machine's end of the link to the node
    folder.mkdir()
    with real_registry.serving(real_registry.DEBIAN, real_registry.TLS, folder, address) as (host, options):
        certificate = folder / options[1].rpartition("/")[2]
        trusted = RUN / "config/registries" / host
        trusted.mkdir(parents=True)
        (trusted / "ca.crt").write_bytes(certificate.read_bytes())
        (trusted / "hosts.toml").write_text(
            f'server = "https://{host}"\n\n[host."https://{host}"]\nca = "{_FOLDER}/{host}/ca.crt"\n'
        )
        yield ClusterRegistry(host, certificate)
