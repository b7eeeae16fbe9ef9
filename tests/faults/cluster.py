"""The state of the cluster, requested until the API server can answer: the truth for the comparison with answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.site import ENDS
from tests.faults.calm import BEAR_SECONDS, RECOVERY_SECONDS, pause_faults

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    from tests.e2e.faults import Faulty
    from tests.e2e.site import Site

THEIRS = ("configmap/somebody-elses", "secret/somebody-elses", "pod/somebody-elses")


def _until(site: Site, condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of `condition()`, among faults or else without new ones."""
    try:
        return site.until(condition, what, BEAR_SECONDS)
    except AssertionError:
        with pause_faults():
            return site.until(condition, what, RECOVERY_SECONDS)


def actual_phase(package: Faulty) -> str:
    """Return how the workload has ended, once the cluster says so."""
    return str(_until(package.site, lambda: ended_phase(package), f"{package.workload} to end"))


def ended_phase(package: Faulty) -> str | None:
    """Return how the workload has ended; None when it has not, or the cluster cannot say."""
    done = _conditions(package)
    ends = ENDS.intersection(done.stdout.split())
    return "gone" if "NotFound" in done.stderr else ends.pop() if ends else None


def is_running(package: Faulty) -> bool:
    """Whether the workload is there and has not ended, once the cluster says so."""
    done: CompletedProcess[str] = _until(
        package.site, lambda: _answered(_conditions(package)), f"{package.workload} to be known"
    )
    return done.returncode == 0 and not ENDS.intersection(done.stdout.split())


def _conditions(package: Faulty) -> CompletedProcess[str]:
    jsonpath = "{.status.phase} {.status.conditions[?(@.status=='True')].type}"
    return package.site.shell(f'kubectl get {package.workload} -o "jsonpath={jsonpath}"')


def _answered(done: CompletedProcess[str]) -> CompletedProcess[str] | None:
    return done if done.returncode == 0 or "NotFound" in done.stderr else None


def pods(package: Faulty) -> list[str]:
    """Return the pods in which ranks run, rank 0's first."""
    name = package.workload.partition("/")[2]
    return [f"{name}-worker-{index}" for index in (0, 1)] if package.overlay == "multi-node" else [name]


def is_written(package: Faulty) -> bool:
    """Wait until the results are written, and return whether they are: not by a pod that was never started."""
    # A kubectl whose connection is cut may end with 0 (kubernetes/kubernetes#60140): only a word is an answer.
    look = f"kubectl exec {pods(package)[0]} -- sh -c 'test -e \"$OUTPUT_DIR/whole\" && echo written'"

    def outcome() -> str | None:
        if "written" in package.site.shell(look).stdout:
            return "written"
        return "failed" if has_lost_pods(package) else None

    return bool(_until(package.site, outcome, "the results to be written") == "written")


def has_lost_pods(package: Faulty) -> bool:
    """Whether one of its pods has failed, once the cluster says so: a kubelet went away while it started that one."""
    template = "{range .items[*]}{.metadata.name}={.status.phase} {end}"

    def listed() -> list[str] | None:
        pods = package.site.shell(f"kubectl get pods -o jsonpath='{template}'").stdout.split()
        return pods if any(pod.startswith("somebody-elses=") for pod in pods) else None

    pods = _until(package.site, listed, "the pods to be listed")
    return any(pod.startswith(package.folder.name) and pod.endswith("=Failed") for pod in pods)


def release(package: Faulty) -> None:
    """Let the ranks that wait for it end; a rank may end before the answer to the request arrives."""
    for pod in pods(package):
        touch = f"kubectl exec {pod} -- sh -c 'touch \"$OUTPUT_DIR/enough\" && echo told'"

        def is_told(command: str = touch) -> bool:
            return "told" in package.site.shell(command).stdout or ended_phase(package) is not None

        _until(package.site, is_told, touch)


def put_foreign_objects(site: Site) -> None:
    """Put objects of somebody else's beside the package's."""
    metadata: dict[str, Any] = {"name": "somebody-elses", "labels": {"app.kubernetes.io/managed-by": "mlpack"}}
    container = {
        "name": "main",
        "image": "docker.io/mpioperator/mpi-pi:openmpi",
        "command": ["sleep", "infinity"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    restricted = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"containers": [container], "securityContext": restricted, "terminationGracePeriodSeconds": 1}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"precious": "yes"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"precious": "yes"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
    ]

    def applied() -> bool:
        try:
            site.apply(*objects)
        except AssertionError:
            return False
        return True

    _until(site, applied, "the objects of somebody else to be applied")


def names(site: Site) -> list[str]:
    """Return the names of the objects in the namespace, once the cluster reports them."""

    def left() -> list[str] | None:
        try:
            return site.left() or ["nothing"]
        except AssertionError:
            return None

    names: list[str] = _until(site, left, "the cluster to say what is left")
    return [name for name in names if name != "nothing"]
