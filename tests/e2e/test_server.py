"""Tests of the server of the task service in a cluster, deployed with its manifests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, MPI_IMAGE, Site
from tests.e2e.storage import NodeFolder, storage_class
from tests.service.api.conftest import COUNTDOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Images

AUTHORIZATION = '-H "Authorization: Bearer $MLPACK_TOKEN" -H "Content-Type: application/json"'


@pytest.fixture(scope="session")
def server_image(images: Images, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the image of the server, built from its Dockerfile."""
    return images.build_ours("server", tmp_path_factory.mktemp("server-image") / "image")


@contextmanager
def forwarded(home: Site, target: str = "deployment/mlpack-server") -> Iterator[str]:
    """Forward a local port to the server, and yield its URL."""
    argv = ["kubectl", "port-forward", target, ":8080"]
    with subprocess.Popen(argv, env=home.environment, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout
            match = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())
            assert match
            yield f"http://127.0.0.1:{match[1]}"
        finally:
            forwarding.terminate()


def _write_overlay(home: Site, jobs: str, image: str, class_name: str) -> None:
    """Write an overlay of the Kustomize base for namespaces that exist."""
    shutil.copytree(CHECKOUT / "deploy/server", home.folder / "base")
    name, _, tag = image.rpartition(":")
    removed = {"apiVersion": "v1", "kind": "Namespace", "$patch": "delete"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mlpack-server"}}
    server = {
        "namespace": home.namespace,
        "resources": ["../base/server"],
        "images": [{"name": "mlpack-server", "newName": name, "newTag": tag}],
        "configMapGenerator": [
            {"name": "mlpack-server", "namespace": "mlpack", "behavior": "merge", "files": ["server.yaml"]}
        ],
        "patches": [
            {"patch": json.dumps({**removed, "metadata": {"name": "mlpack"}})},
            {"patch": json.dumps({**claim, "spec": {"storageClassName": class_name}})},
        ],
    }
    subject = [{"op": "replace", "path": "/subjects/0/namespace", "value": home.namespace}]
    of_jobs = {
        "namespace": jobs,
        "resources": ["../base/jobs"],
        "patches": [
            {"patch": json.dumps({**removed, "metadata": {"name": "mlpack-jobs"}})},
            {"patch": json.dumps(subject), "target": {"kind": "RoleBinding"}},
        ],
    }
    overlays = {".": {"resources": ["server", "jobs"]}, "server": server, "jobs": of_jobs}
    for folder, content in overlays.items():
        (home.folder / folder).mkdir(exist_ok=True)
        (home.folder / folder / "kustomization.yaml").write_text(json.dumps(content), encoding="utf-8")
    settings = (CHECKOUT / "deploy/server/server/server.yaml").read_text(encoding="utf-8")
    changed = settings.replace("namespace: mlpack-jobs", f"namespace: {jobs}")
    (home.folder / "server/server.yaml").write_text(changed, encoding="utf-8")


@pytest.mark.thorough
def test_server_in_the_cluster_runs_a_job(
    site: Site, new_site: Callable[[str], Site], mpi_image: str, server_image: str
) -> None:
    assert mpi_image == MPI_IMAGE
    home = new_site("restricted")
    repository, _, tag = MPI_IMAGE.rpartition(":")
    definition = {**COUNTDOWN, "system_values": f"image:\n  repository: {repository}\n  tag: {tag}\n"}
    (home.folder / "definition.json").write_text(json.dumps(definition), encoding="utf-8")
    folder = NodeFolder(new_site("privileged"), "/tmp")
    folder.run(f"mkdir -m 777 {folder.path}")
    with storage_class(home, folder.path, "ReadWriteOnce") as name:
        _write_overlay(home, site.namespace, server_image, name)
        home.run("kubectl apply -k .")
        home.run("kubectl rollout status deployment/mlpack-server --timeout=3m")
        create = "mlpack serve token ada --role developer --config /etc/mlpack/server.yaml"
        home.environment["MLPACK_TOKEN"] = home.run(f"kubectl exec deployment/mlpack-server -- {create}").strip()
        with forwarded(home) as address:
            home.environment["MLPACK_SERVER"] = address
            home.run(f"curl -sS --fail-with-body {AUTHORIZATION} -d @definition.json {address}/v1/definitions")
            release = home.run("mlpack task create countdown --set process.train.number=5").strip()
            assert home.run(f"mlpack task logs -f {release}").split() == ["5", "4", "3", "2", "1"]
            job = json.loads(home.run(f"mlpack task status {release} --wait --timeout 3m -o json"))
            assert (job["status"], job["creator"], job["workload"]["namespace"]) == ("succeeded", "ada", site.namespace)
        home.run("kubectl rollout restart deployment/mlpack-server")
        home.run("kubectl rollout status deployment/mlpack-server --timeout=3m")
        with forwarded(home) as address:
            home.environment["MLPACK_SERVER"] = address
            assert home.run("mlpack task list -o name").split() == [release]
        account = f"system:serviceaccount:{home.namespace}:mlpack-server"
        for namespace, question in (
            *((site.namespace, f"{verb} secrets") for verb in ("get", "list", "watch", "update", "patch", "delete")),
            (site.namespace, "create rolebindings"),
            (home.namespace, "get pods"),
            ("kube-system", "get pods"),
        ):
            answer = home.shell(f"kubectl auth can-i {question} --as={account} -n {namespace}").stdout.strip()
            assert answer == "no", f"{question} in {namespace}"
    folder.run(f"rm -r {folder.path}")
