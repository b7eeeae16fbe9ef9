"""Tests of the option `queue` with Kueue: a workload waits for room in its queue, and then succeeds."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import MPI_IMAGE, commands
from tests.e2e.test_leaderworkerset import NAME, SHOWN, groups

if TYPE_CHECKING:
    from tests.e2e.site import Images, Site

pytestmark = [
    pytest.mark.usefixtures("mpi_image"),
    pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="another cluster may have no Kueue"),
]

STOPPED = "is stopped, and starts nothing"
"""The reason for which a workload waits whose ClusterQueue admits nothing."""


def open_queue(site: Site, queue: str) -> None:
    site.run(
        f"kubectl patch clusterqueue {queue} --type=merge --patch '{json.dumps({'spec': {'stopPolicy': 'None'}})}'"
    )


def workload(site: Site) -> dict[str, Any]:
    [queued] = site.until(lambda: site.get("workloads.kueue.x-k8s.io")["items"], "Kueue to know of the workload")
    assert isinstance(queued, dict)
    return queued


def test_mpijob_is_suspended_until_its_queue_has_room(site: Site, queue: str) -> None:
    package = site.build("hello-mpi", f"--with queue --site QUEUE={queue}")
    site.run(commands(package, "multi-node")[0], cwd=package)
    assert workload(site)["spec"]["queueName"] == queue
    assert site.get("mpijob hello-mpi-multi-node")["spec"]["runPolicy"]["suspend"] is True
    site.until(lambda: STOPPED in site.shell(f"mlpack status {package.name}").stdout, "the reason to be told")
    assert site.run("kubectl get pods -o name") == ""
    open_queue(site, queue)
    assert site.end_of("hello-mpi-multi-node") == "Succeeded", site.log(site.launcher())
    asked = {pod_set["name"]: pod_set["count"] for pod_set in workload(site)["spec"]["podSets"]}
    assert asked == {"launcher": 1, "worker": 2}


def set_cpu(site: Site, queue: str, cpu: str) -> None:
    path = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
    patch = json.dumps([{"op": "replace", "path": path, "value": cpu}])
    site.run(f"kubectl patch clusterqueue {queue} --type=json --patch '{patch}'")


@pytest.mark.thorough
def test_each_group_of_a_leaderworkerset_waits_until_its_queue_has_room(site: Site, images: Images, queue: str) -> None:
    """The quota is enough for none of two groups, then for one, then for both."""
    options = f"--set overlays.serving.replicas=2 --with queue --site QUEUE={queue}"
    package = Faulty(site, groups(site, images, options), "serving")

    def running() -> set[str]:
        label = f"--selector=leaderworkerset.sigs.k8s.io/name={NAME}"
        return set(site.run(f"kubectl get pods {label} --field-selector=status.phase=Running -o name").split())

    with package.running("deploy", "--timeout=5m") as deploy:
        site.until(lambda: STOPPED in package.run("status").out, "the reason to be told")
        assert {item["spec"]["queueName"] for item in site.get("workloads.kueue.x-k8s.io")["items"]} == {queue}
        assert running() == set()
        set_cpu(site, queue, "150m")
        open_queue(site, queue)
        used_up = f"the quota of the ClusterQueue {queue} for cpu (flavor {queue}) is used up"
        site.until(lambda: used_up in package.run("status").out, "the reason of the second group")
        site.until(lambda: len(running()) == 2, "one group to run")
        first = running()
        set_cpu(site, queue, "2")
        _, stderr = deploy.communicate(timeout=240)
    assert deploy.returncode == 0, stderr
    assert f"{SHOWN} serves: 2 of 2 groups serve" in stderr
    assert first < running()
    assert len(site.get("workloads.kueue.x-k8s.io")["items"]) == 2


def test_run_waits_for_a_suspended_task_and_then_succeeds(site: Site, queue: str) -> None:
    """A runner that mistakes a suspended Job for a failed one would end before the queue has room."""
    tasks = {"quick": {"entrypoint": "echo done"}, "next": {"entrypoint": "echo done"}}
    (site.folder / "mlcube.yaml").write_text(json.dumps({"name": "q", "docker": {"image": MPI_IMAGE}, "tasks": tasks}))
    site.environment["XDG_CACHE_HOME"] = str(site.folder / "cache")
    argv = ["mlpack", "run", "mlcube.yaml", "--task=quick,next", "--with=queue", f"--site=QUEUE={queue}", "--follow"]
    with subprocess.Popen(
        argv, cwd=site.folder, env=site.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as runner:
        assert workload(site)["spec"]["queueName"] == queue
        assert site.get("job q-task-quick")["spec"]["suspend"] is True
        with pytest.raises(subprocess.TimeoutExpired):
            runner.wait(5)
        open_queue(site, queue)
        stdout, stderr = runner.communicate(timeout=120)
    assert (runner.returncode, stdout) == (0, "done\ndone\n"), stderr
    assert STOPPED in stderr
    assert stderr.index("job/q-task-quick has succeeded") < stderr.index("job/q-task-next is deployed")
