from __future__ import annotations

from copy import deepcopy
from typing import Any

from packager.cluster.mutations import mutations

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "labels": {"app": "train"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "example.com/train:1",
                "env": [{"name": "TOKEN", "value": "1"}],
                "resources": {"requests": {"cpu": 0.5}, "limits": {"memory": "1Gi"}},
                "volumeMounts": [{"name": "code", "mountPath": "/code"}],
                "readinessProbe": {"httpGet": {"port": 80}},
            }
        ],
        "volumes": [{"name": "code", "configMap": {"name": "code"}}],
    },
}


def stored() -> dict[str, Any]:
    """Return the pod as an API server stores it when no policy changes it."""
    pod = deepcopy(POD)
    pod["metadata"] |= {"namespace": "team", "uid": "1", "creationTimestamp": "2026-11-24T00:00:00Z"}
    pod["spec"] |= {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for taint in ("not-ready", "unreachable")
        ],
    }
    main = pod["spec"]["containers"][0]
    main |= {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    probe = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    main["readinessProbe"] = {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **probe}
    main["volumeMounts"].append({"name": "kube-api-access-x7bq2", "mountPath": "/var/run/secrets", "readOnly": True})
    pod["spec"]["volumes"][0]["configMap"]["defaultMode"] = 420
    pod["spec"]["volumes"].append({"name": "kube-api-access-x7bq2", "projected": {"defaultMode": 420, "sources": []}})
    return {**pod, "status": {"phase": "Pending"}}


def test_mutations_leave_out_defaults_of_kubernetes() -> None:
    assert mutations(POD, stored()) == []


def test_limit_without_request_in_a_custom_resource_is_left_out() -> None:
    """Kubernetes derives requests from limits in pods, and not in the pod templates of custom resources."""
    container = {"name": "node", "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "1"}}}
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"containers": [container]}}
    assert mutations(jobset, deepcopy(jobset)) == []


def change(pod: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path of keys and numbers; None removes it."""
    *steps, last = path.split("/")
    for step in steps:
        pod = pod[int(step)] if isinstance(pod, list) else pod.setdefault(step, {})
    if value is None:
        del pod[last]
    elif isinstance(pod, list):
        pod.append(value)
    else:
        pod[last] = value


def test_policy_change_is_one_line_with_path_and_old_and_new_value() -> None:
    for path, value, change_line in [
        (
            "spec/containers/0/image",
            "evil.example/train:1",
            "spec.containers[main].image: example.com/train:1 -> evil.example/train:1",
        ),
        ("spec/nodeSelector/disk", "ssd", "spec.nodeSelector.disk: nothing -> ssd"),
        ("spec/nodeSelector/type", "ClusterIP", "spec.nodeSelector.type: nothing -> ClusterIP"),
        (
            "spec/containers/0/resources/requests/cpu",
            "900",
            "spec.containers[main].resources.requests.cpu: 0.5 -> 900",
        ),
        (
            "spec/containers/0/resources/requests/memory",
            "2Gi",
            "spec.containers[main].resources.requests.memory: 1Gi -> 2Gi",
        ),
        (
            "spec/containers/0/resources/limits/cpu",
            "1",
            "spec.containers[main].resources.limits.cpu: nothing -> 1",
        ),
        ("metadata/labels/app", "other", "metadata.labels.app: train -> other"),
        ("metadata/labels/app", None, "metadata.labels.app: train -> nothing"),
        ("metadata/annotations/injected", "yes", "metadata.annotations.injected: nothing -> yes"),
        (
            "spec/containers/-",
            {"name": "proxy", "image": "proxy:1"},
            "spec.containers[proxy]: nothing -> image proxy:1",
        ),
        (
            "spec/containers/0/env/-",
            {"name": "PROXY", "value": "http://proxy"},
            "spec.containers[main].env[PROXY].value: nothing -> http://proxy",
        ),
        ("spec/containers/0/env", None, "spec.containers[main].env[TOKEN].value: *** -> nothing"),
        ("spec/containers/0/imagePullPolicy", "Always", "spec.containers[main].imagePullPolicy: nothing -> Always"),
        ("spec/schedulerName", "volcano", "spec.schedulerName: nothing -> volcano"),
        ("spec/priority", 1000, "spec.priority: nothing -> 1000"),
        ("spec/restartPolicy", "Always", "spec.restartPolicy: Never -> Always"),
        ("spec/securityContext/runAsUser", 0, "spec.securityContext.runAsUser: nothing -> 0"),
        ("spec/schedulingGates", [{"name": "queue"}], "spec.schedulingGates[queue]: nothing -> {'name': 'queue'}"),
        ("metadata/finalizers", ["a.example/hold"], "metadata.finalizers: nothing -> ['a.example/hold']"),
    ]:
        answer = stored()
        change(answer, path, value)
        assert [str(difference) for difference in mutations(POD, answer)] == [change_line]


def test_mutations_leave_out_defaults_of_a_crd() -> None:
    sent: dict[str, Any] = {"kind": "MPIJob", "metadata": {"name": "train"}, "spec": {"slotsPerWorker": 1}}
    defaults = {"launcherCreationPolicy": "AtStartup", "runLauncherAsWorker": False}
    assert mutations(sent, {**sent, "spec": {**sent["spec"], **defaults}}) == []
    (difference,) = mutations(sent, {**sent, "spec": {**sent["spec"], **defaults, "runLauncherAsWorker": True}})
    assert str(difference) == "spec.runLauncherAsWorker: nothing -> True"
