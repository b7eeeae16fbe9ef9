"""Brings the cluster up and down, starts and stops its components, and builds images for it."""

import hashlib
import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path

from tests.testbed import dockerfiles, images, node, operators, packages
from tests.testbed.builds import BUILDS, build_all
from tests.testbed.certificates import kubeconfig, write_credentials
from tests.testbed.components import (
    API_SERVER,
    COMPONENTS,
    CONTAINERD,
    CONTROLLER_MANAGER,
    COREDNS,
    ETCD,
    JOBSET,
    KUBELET,
    KUEUE,
    LWS,
    MPI_OPERATOR,
    SCHEDULER,
    Component,
)
from tests.testbed.errors import ClusterError, ToolError
from tests.testbed.node import Node
from tests.testbed.places import KUBECONFIG, RUN, SOURCES, only_one
from tests.testbed.progress import say, step

_DEFINITION_FILE = RUN / "made-of"
"""The file with the definition of the running cluster; it is written last, so a node without it is incomplete."""


def check_machine() -> None:
    """Raise ToolError if this machine cannot run a cluster."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise ToolError(
            "the test cluster is made of Linux namespaces, which takes Linux and root; "
            "any other cluster serves as well, by the name of its context: make e2e CONTEXT=kind-x"
        )


def up() -> Path:
    """Bring the cluster up, or repair it, and return the path of its kubeconfig."""
    check_machine()
    with only_one(SOURCES):
        packages.install(packages.NODE)
        build_all()
        running = _node_as_defined()
        for component in COMPONENTS:
            component.stopped.unlink(missing_ok=True)
        _start_all(running)
    return KUBECONFIG


def down() -> None:
    """Remove everything except the cache, in whatever state it is."""
    check_machine()
    with only_one(SOURCES), step("cluster taken down"):
        _clean()
        packages.withdraw_policy()


def start(name: str) -> None:
    """Start a component, and those that have ended without it, such as an operator that lost its lease."""
    with only_one(SOURCES):
        running = _running_node()
        _component(name).stopped.unlink(missing_ok=True)
        _start_all(running)


def stop(name: str) -> None:
    """Kill a component, and keep it stopped."""
    with only_one(SOURCES):
        _component(name).stop(_running_node())


def build_image(folder: Path, name: str) -> None:
    """Build the image of a folder's Dockerfile, and load it into the cluster as `name`, such as docker.io/foo/bar:1.

    A cached image is not built again, and an image of the cluster is not loaded again.
    """
    check_machine()
    archive = dockerfiles.build(folder)
    with only_one(SOURCES), step(f"{name} in the cluster"):
        images.load(_running_node(), archive, name)


def status() -> dict[str, int | None]:
    """Return the process id of each component on the machine; None for a component that does not run."""
    running = node.find()
    return {component.name: component.pid(running) if running else None for component in COMPONENTS}


def _component(name: str) -> Component:
    for component in COMPONENTS:
        if component.name == name:
            return component
    raise ClusterError(f"no component is called {name!r}, only {', '.join(component.name for component in COMPONENTS)}")


def _running_node() -> Node:
    running = node.find()
    if running is None:
        raise ClusterError("the cluster is not up: python -m tests.testbed up")
    return running


def _node_as_defined() -> Node:
    """Return the running node; create it again if its definition differs from the sources."""
    definition = _definition()
    running = node.find()
    if running and _DEFINITION_FILE.exists():
        if _DEFINITION_FILE.read_text() == definition:
            return running
        say("the cluster that runs was made of other versions or settings: a new one takes its place")
    elif RUN.exists():
        say("of an earlier cluster only remains are there: a new one takes its place")
    _clean()
    with step("node"):
        running = node.create()
        credentials = RUN / "credentials"
        write_credentials(credentials, inside=node.ADDRESS, outside=node.address())
        KUBECONFIG.touch(mode=0o600)
        KUBECONFIG.write_text(kubeconfig(credentials, "admin", node.address()))
        _DEFINITION_FILE.write_text(definition)
    return running


def _definition() -> str:
    digest = hashlib.sha256(repr([component.argv for component in COMPONENTS]).encode())
    for build in BUILDS:
        digest.update(build.entry.name.encode())
    for file in sorted((SOURCES / "config").iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def _start_all(running: Node) -> None:
    """Start all components except those that were stopped, in the order of their dependencies."""
    _wait(running, _start(running, ETCD, CONTAINERD))
    images.load_pause(running)
    _wait(running, _start(running, API_SERVER))
    started = _start(running, CONTROLLER_MANAGER, SCHEDULER, KUBELET, COREDNS)
    if API_SERVER.stopped.exists():
        return
    if not operators.are_installed():
        with step("CRDs, webhooks"):  # runs while the other components start
            operators.install()
    for component in (MPI_OPERATOR, JOBSET, LWS):
        if not component.pid(running):
            operators.release_lease(component.name)
    _wait(running, [*started, *_start(running, MPI_OPERATOR, JOBSET, LWS, KUEUE)])


def _start(running: Node, *components: Component) -> list[Component]:
    """Start the components that do not run, and return those that are not up yet."""
    to_start = [component for component in components if not component.stopped.exists()]
    waiting = [component for component in to_start if not component.is_up(running)]
    for component in waiting:
        component.start(running)
    return waiting


def _wait(running: Node, components: list[Component]) -> None:
    if components:
        with step(", ".join(component.name for component in components)):
            for component in components:
                component.wait(running)


def _clean() -> None:
    node.destroy()
    if RUN.exists():
        shutil.rmtree(RUN)
    for parent in RUN.parents[:2]:
        with suppress(OSError):  # another checkout's cluster, or something else of mlpack's, lives there too
            parent.rmdir()
