"""Settings that give hello-mpi an overlay of every kind; the bundled model has a Pod and an MPIJob."""

from __future__ import annotations

from packager.modelspec.settings import parse_setting

SET = (
    "overlays.one-job.kind=Job",
    "overlays.server.kind=Deployment",
    "overlays.server.ports.http.port=8080",
    "overlays.server.replicas=2",
    "overlays.server.resources.requests.cpu=10m",
    "overlays.groups.kind=LeaderWorkerSet",
    "overlays.groups.ports.http.port=8080",
    "overlays.groups.size=2",
    "overlays.nodes.kind=JobSet",
    "overlays.nodes.rendezvous=torch",
    "overlays.nodes.roles.node.replicas=2",
    "overlays.servers.kind=JobSet",
    "overlays.servers.rendezvous=dmlc",
    "overlays.servers.roles.scheduler.replicas=1",
    "overlays.servers.roles.server.replicas=1",
    "overlays.servers.roles.worker.replicas=2",
)
"""The values of `--set` that add the overlays."""

FOLDERS = ("environment.CHECKPOINT_DIR=/checkpoints", "assets.0=hello.sh")
"""The values of `--set` that add every folder that an option can mount."""

SETTINGS = tuple(parse_setting(argument) for argument in SET)

OVERLAYS = ("single-node", "one-job", "servers", "nodes", "multi-node", "server", "groups")
"""The names of all overlays."""
