"""Tests of the differences between a manifest and the object in the cluster."""

from __future__ import annotations

from typing import Any

from packager.cluster.differences import differences


def pod(**container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "a:1", **container}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [main]}}


def changes(manifest: dict[str, Any], live: dict[str, Any]) -> list[str]:
    return [str(difference) for difference in differences(manifest, live)]


def test_differences_leave_out_fields_filled_in_by_the_server() -> None:
    live = pod(terminationMessagePath="/dev/termination-log")
    live["metadata"] |= {"uid": "u", "labels": {"added": "by a webhook"}}
    live["spec"] |= {"nodeName": "n", "volumes": [{"name": "token"}]}
    assert changes(pod(), live) == []


def test_differences_treat_equal_quantities_as_equal() -> None:
    for written, stored in [("0.5", "500m"), ("1024Mi", "1Gi"), (1, "1"), ("1000m", "1")]:
        assert changes(pod(resources={"limits": {"cpu": written}}), pod(resources={"limits": {"cpu": stored}})) == []


def test_changed_value_is_reported_with_its_path() -> None:
    assert changes(pod(), pod(image="a:2")) == ["spec.containers[main].image: a:2 -> a:1"]


def test_list_items_are_matched_by_name_in_any_order() -> None:
    one, two = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
    assert changes(pod(env=[one, two]), pod(env=[two, {"name": "INJECTED", "value": "x"}, one])) == []
    changed = pod(env=[two, {**one, "value": "3"}])
    assert changes(pod(env=[one, two]), changed) == ["spec.containers[main].env[A].value: 3 -> 1"]


def test_lists_without_names_are_compared_in_order() -> None:
    assert changes(pod(command=["a", "b"]), pod(command=["a", "c"])) == ["spec.containers[main].command[1]: c -> b"]


def test_script_is_shown_by_its_first_line() -> None:
    manifest = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"run.sh": "#!/bin/sh\necho new\n"}}
    live = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"run.sh": "#!/bin/sh\necho old\n"}}
    assert changes(manifest, live) == ["data.run.sh: #!/bin/sh... -> #!/bin/sh..."]


def test_differences_leave_out_lines_of_base64() -> None:
    """Kustomize breaks base64 into lines of 70 characters, and the server answers with one."""
    for kind, key in [("ConfigMap", "binaryData"), ("Secret", "data")]:
        head = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}
        lines, line, other = ({**head, key: {"a": text}} for text in ("QUJD\nQUJD\n", "QUJDQUJD", "QUJDQUJE"))
        assert changes(lines, line) == []
        assert len(changes(lines, other)) == 1
