"""A model that uses every key of a spec for code, in an overlay of every kind; its code takes three ConfigMaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

SPEC = f"""\
name: everything
title: Everything
framework: mpi
image: {{name: demo, tag: "1.0", digest: "sha256:{"0123456789abcdef" * 4}"}}
files:
  - train.sh
  - src
environment: {{STEPS: 3}}
overlays:
  pod:
    kind: Pod
    workdir: src
    deadline: 600
    priority_class: batch-low
    resources: {{limits: {{memory: 2Gi}}}}
  job:
    kind: Job
    script: src/tools/evaluate.sh
    args: ["--out", $(OUTPUT_DIR), "a b"]
    workdir: /tmp
    init: {{command: [mkdir, -p, $(OUTPUT_DIR)/checkpoints]}}
    retries: 1
    deadline: 600
    ttl: 600
    stops_within: 120
    claims: [{{claim: files, path: /files}}]
  command:
    kind: Job
    image: {{name: team/other, tag: "2.1", registry: ghcr.io}}
    script: src/tools/evaluate.sh
    args: []
  mpi:
    kind: MPIJob
    deadline: 600
    ttl: 600
    priority_class: batch-high.example
    stops_within: 60
  server:
    kind: Deployment
    ports: {{http: {{port: 8080}}}}
    surge: 0
  servers:
    kind: JobSet
    files: [conf/**/*.yaml]
    rendezvous: none
    stops_within: 90
    success: [worker]
    retries: 1
    permanent_exit_codes: [64, 1-3, 2]
    roles:
      worker: {{replicas: 2}}
      other: {{script: train.sh, args: [serve], workdir: conf/a}}
      third: {{command: [nc, -l, "80"]}}
workspace: files
sequence: [pod, job, mpi, servers, server]
variants:
  - files: ["*.toml"]
    scripts: [train.sh, src/tools/evaluate.sh]
    args: ["--steps=$(STEPS)", $(SCRIPT)]
    workdir: .
    init: {{script: src/tools/prepare.sh, args: [$(DATASET_DIR)]}}
    resources: {{requests: {{cpu: 100m, memory: 1Gi}}, limits: {{memory: 1Gi}}}}
"""

FILES = {
    "src/tools/evaluate.sh": "#!/bin/sh\n. ./tools/utils.sh\n",
    "src/tools/prepare.sh": demo.SCRIPT,
    "src/tools/utils.sh": 'say() { echo "$1"; }\n',
    "src/__init__.py": "",
    "src/a__b.py": "A = 1\n",
    "src/a/b.py": "B = 2\n",
    **{f"src/large/{name}.txt": name * (150 << 10) for name in "xyz"},
    "conf/a/b.yaml": "b: 1\n",
    "conf/a.json": "{}",
    "model.toml": "x = 1\n",
}

OVERLAYS = ("pod", "job", "command", "mpi", "server", "servers")


def write(folder: Path) -> Path:
    """Write the model into `folder` and return its spec file."""
    return demo.write(folder, SPEC, FILES)
