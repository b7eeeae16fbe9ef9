"""Tests of file transfers to and from claims under "restricted": mlpack with uid 12345, and kubectl alone."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import MPI_IMAGE, blocks
from tests.e2e.storage import claim, only_one_for_one_node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site
    from tests.e2e.storage import NodeFolder

pytestmark = pytest.mark.usefixtures("mpi_image")

WEIGHTS = os.urandom(300_000)
KEY = "hf-0123456789"
SPEC = """\
name: all
title: All
framework: sh
image: {name: mpioperator/mpi-pi, tag: openmpi}
files: [run.sh, code]
secrets:
  HF_TOKEN: {description: A token.}
downloads:
  - {url: "URL/weights", sha256: DIGEST, path: weights}
overlays:
  job: {kind: Job}
variants: [{script: run.sh}]
"""
RUN = """\
#!/bin/sh
set -eu
cd "$MODEL_DIR"
code=$(cat quickstart/scripts/code/*.txt | wc -c)
set -- "$(printf %s "$HF_TOKEN" | sha256sum)" "$(sha256sum <assets/weights)" "$(cat "$DATASET_DIR/data")"
! echo x 2>/dev/null >"$DATASET_DIR/mine"
echo "$(id -u) $code ${1%% *} ${2%% *} $3" >"$OUTPUT_DIR/result"
cat "$OUTPUT_DIR/result"
"""


def test_job_uses_a_secret_a_download_three_configmaps_and_a_pushed_dataset(
    site: Site,
    node: NodeFolder,
    volumes: str,
) -> None:
    """The dataset and the package are each pushed to a claim, and the results are pulled from a third."""
    for name in ("results", "dataset", "model"):
        claim(site, name, volumes)
    package = model(site)
    site.run(f"mlpack configure {package} --uid 12345 --gid 12345")
    made = site.folder / "values"
    made.write_text(f"HF_TOKEN={KEY}\n", encoding="utf-8")
    site.run(f"kubectl create secret generic token --from-env-file={made}")
    dataset = site.folder / "dataset"
    dataset.mkdir()
    (dataset / "data").write_text("numbers\n", encoding="utf-8")

    taken = site.shell(f"mlpack workspace push {package} dataset --folder DATASET_DIR")
    assert (taken.returncode, "1 file in " in taken.stderr) == (7, True), taken.stderr
    site.run(f"mlpack workspace push {package} dataset --folder DATASET_DIR --force")
    assert node.run(f"cat {node.path}/dataset/data; stat -c %u {node.path}/dataset/data") == "numbers\n12345\n"
    site.run(f"cp -R {package} copy && mkdir copy/output && mlpack workspace push {package} copy --folder MODEL_DIR")
    site.run(f"mlpack deploy {package} --pod-security restricted --timeout 10m")
    site.run(f"mlpack workspace pull {package} here --folder OUTPUT_DIR")
    digests = [hashlib.sha256(content).hexdigest() for content in (KEY.encode(), WEIGHTS)]
    result = (site.folder / "here/result").read_text(encoding="utf-8")
    assert result == f"12345 {3 * 150_000} {digests[0]} {digests[1]} numbers\n"
    assert site.run(f"mlpack logs {package}") == result
    assert site.shell(f"grep -r {KEY} {package}").returncode == 1
    assert len(site.run("kubectl get configmaps -o name | grep scripts").split()) == 3
    ours = "kubectl get pods -l app.kubernetes.io/component=workspace -o name"
    site.until(lambda: not site.run(ours), "the temporary pods to be gone")


def model(site: Site) -> Path:
    """Build the package of a model that downloads its weights from a local server."""
    folder = site.folder / "model"
    (folder / "code").mkdir(parents=True)
    for name in "abc":
        (folder / f"code/{name}.txt").write_text(name * 150_000, encoding="utf-8")
    (folder / "run.sh").write_text(RUN, encoding="utf-8")
    served = site.folder / "served"
    served.mkdir()
    (served / "weights").write_bytes(WEIGHTS)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(served))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        text = SPEC.replace("URL", url).replace("DIGEST", hashlib.sha256(WEIGHTS).hexdigest())
        (folder / "spec.yaml").write_text(text, encoding="utf-8")
        site.environment["XDG_CACHE_HOME"] = str(site.folder / "cache")
        claims = ["OUTPUT_CLAIM=results", "DATASET_CLAIM=dataset", "MODEL_CLAIM=model", "SECRET=token"]
        options = [f"--site {setting}" for setting in claims]
        package = site.build("./model", "--with output-pvc --with dataset-pvc --with model-pvc --root /srv", *options)
        server.shutdown()
    return package


@pytest.mark.thorough
def test_cube_files_are_copied_with_kubectl(site: Site, volumes: str) -> None:
    only_one_for_one_node(site, "results")
    task = {"entrypoint": "cat", "parameters": {"inputs": {"a": {"type": "file", "default": "in/a.txt"}}}}
    cube = {"name": "files", "docker": {"image": MPI_IMAGE}, "k8s": {"pvc": "results"}, "tasks": {"show": task}}
    (site.folder / "cube/workspace/in").mkdir(parents=True)
    (site.folder / "cube/mlcube.yaml").write_text(json.dumps(cube), encoding="utf-8")
    (site.folder / "cube/workspace/in/a.txt").write_text("a\n", encoding="utf-8")
    site.run("mlpack import mlcube cube -o models")
    package = site.build("./models/files", f"--site CLAIM_CLASS={volumes}", "--site CLAIM_SIZE=1Gi")
    create_claim, create, push, ls, pull, delete = blocks(package, "Files into and out of the claims")
    site.run(create_claim, cwd=package)
    site.run(create)
    site.run(push, cwd=site.folder / "cube")
    assert "a.txt" in site.run(ls)
    site.run(pull)
    site.run(f"{delete} --wait=false")
    assert (site.folder / "results/in/a.txt").read_text(encoding="utf-8") == "a\n"
