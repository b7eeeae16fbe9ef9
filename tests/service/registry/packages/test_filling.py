from __future__ import annotations

from typing import Any

from packager.service.registry.packages import filling
from packager.service.registry.packages.content import PackageFacts, PackageObjects


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", **spec.pop("container", {})}], **spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "p-o"}, "spec": {"template": template}}


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def filled(*objects: dict[str, Any], given: dict[str, str] | None = None, **more: Any) -> list[dict[str, Any]]:
    fields = {"keys": ["A", "B"], "numbers": [], "secrets": [], **more}
    facts = PackageFacts(options=[], site={}, claims=[])
    package = PackageObjects(objects=list(objects), mark="vabc", prefix="p", suffix="o", facts=facts, **fields)
    return filling.filled(package, {"A": "one", "B": "2"}, given or {}, "run-1")


def test_names_begin_with_the_release_and_references_match() -> None:
    container = {"envFrom": [{"configMapRef": {"name": "p-env-o"}}], "args": ["p-env-o"], "command": ["p-env-o"]}
    container["env"] = [
        {"name": "p-env-o", "value": "p-env-o"},
        {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "p-env-o", "key": "p-env-o"}}},
    ]
    items = filled(config("p-env-o", text="p-env-o"), config("own", x="1"), config("p-own-o"), job(container=container))
    assert [item["metadata"]["name"] for item in items] == ["run-1-env", "run-1-own", "run-1-own-2", "run-1"]
    main = items[-1]["spec"]["template"]["spec"]["containers"][0]
    assert main["envFrom"] == [{"configMapRef": {"name": "run-1-env"}}]
    assert main["args"] == main["command"] == ["p-env-o"]
    assert main["env"][0] == {"name": "p-env-o", "value": "p-env-o"}
    assert main["env"][1]["valueFrom"]["configMapKeyRef"]["name"] == "run-1-env"
    assert items[0]["data"] == {"text": "p-env-o"}


def test_values_are_filled_in_once_and_numbers_stay_numbers() -> None:
    path: list[str | int] = [1, "spec", "template", "spec", "priority"]
    first, last = filled(config("p-env-o", a="vabcn0e/x", b="vabcn1e"), job(priority="vabcn1e"), numbers=[path])
    assert first["data"] == {"a": "one/x", "b": "2"}
    assert last["spec"]["template"]["spec"]["priority"] == 2
    again = filled(config("p-env-o", a="vabcn0e"), keys=["A"], numbers=[])
    assert again[0]["data"] == {"a": "one"}


def test_secret_value_moves_from_the_configmap_to_the_secret_of_the_job() -> None:
    container = {"envFrom": [{"configMapRef": {"name": "p-env-o"}}]}
    maps, made = filled(config("p-env-o", T="", a="x"), job(container=container), given={"T": "hidden"})
    assert maps["data"] == {"a": "x"}
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "run-1-package-secrets", "key": "T"}}}
    ]
    assert "hidden" not in str((maps, made))
