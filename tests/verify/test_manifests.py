"""Findings about manifests that people may add to a package: each with its place, message and hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import Fault
from packager.verify import objects, schema
from tests import written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.base.problems import Problem
    from packager.rendering.overlay import RenderedOverlay

    Check = Callable[[RenderedOverlay], Iterator[Problem]]


def messages(check: Check, text: str) -> list[str]:
    return [str(problem) for problem in check(written.overlay(text))]


def test_value_of_wrong_type_is_found() -> None:
    for field, value, message, hint in [
        ("tty", '"true"', "expected true or false, found the text 'true'", "write true without quotes"),
        ("tty", '"yes"', "expected true or false, found the text 'yes'", None),
        ("workingDir", "7", "expected text, found the number 7", 'quote it: "7"'),
        ("workingDir", "true", "expected text, found true", 'quote it: "true"'),
        ("args", "all", "expected a list, found the text 'all'", None),
        ("securityContext", "[]", "expected a mapping, found an empty list", None),
    ]:
        spec = f"{{containers: [{{name: main, {field}: {value}}}]}}"
        text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n"
        [manifest] = written.overlay(text).manifests
        location = ("spec", "containers", 0, field)
        assert list(schema.faults(manifest.data, ("1.37",))) == [Fault(location, message, hint)]


def test_mpijob_of_another_group_is_not_checked() -> None:
    job = "apiVersion: example.org/v1\nkind: MPIJob\nmetadata: {name: j}\nspec: {slotsPerWorker: 0}\n"
    assert messages(objects.check_kinds, job) == []
    assert messages(objects.check_kinds, job.replace("example.org/v1", "kubeflow.org/v2beta1")) == [
        "file.yaml:4:24: MPIJob j: spec.slotsPerWorker: expected at least 1, found 0",
    ]
