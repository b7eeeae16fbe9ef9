"""hello-mpi with an overlay of every kind; as it is bundled, it has a Pod and an MPIJob."""

from __future__ import annotations

from packager.spec.settings import parse_setting

SET = (
    "overlays.one-job.kind=Job",
    "overlays.server.kind=Deployment",
    "overlays.server.ports.http.port=8080",
    "overlays.server.replicas=2",
    "overlays.server.resources.requests.cpu=10m",
    "overlays.servers.kind=JobSet",
    "overlays.servers.rendezvous=dmlc",
    "overlays.servers.roles.scheduler.replicas=1",
    "overlays.servers.roles.server.replicas=1",
    "overlays.servers.roles.worker.replicas=2",
)
"""What `--set` takes for it."""

FOLDERS = ("environment.CHECKPOINT_DIR=/checkpoints", "assets.0=hello.sh")
"""What `--set` takes for it to have all folders that options give a place."""

SETTINGS = tuple(parse_setting(argument) for argument in SET)

OVERLAYS = ("single-node", "one-job", "servers", "multi-node", "server")
"""The overlays that it has then."""
