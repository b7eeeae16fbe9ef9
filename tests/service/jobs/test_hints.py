"""What a job's user is told to do about a container that has used too much memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert, replace
from packager.kubernetes import oomkilled
from packager.kubernetes.verdict import Finding, Phase, Verdict
from packager.service.jobs import hints
from packager.service.registry import definitions
from packager.service.registry.bodies import DefinitionBody
from packager.service.registry.packages.content import PackageOrigin

if TYPE_CHECKING:
    from packager.service.registry.definitions import Definition

KILLED = oomkilled.killed_container("pod/x", "main", "512Mi", ())
AFTERWARDS = oomkilled.killed_process("pod/x", "container main", "512Mi", "the pod")
OTHER = Finding("Error", "pod/x", "container main ended with exit code 3", "read its log")


def definition(description: str) -> Definition:
    body = {
        "name": "mnist",
        "task_template_name": "digits-task",
        "user_values_description": description,
        "user_values_example": "taskDef: mnist",
    }
    read, complaints = definitions.read(convert(body, DefinitionBody))
    assert read, complaints
    return read


def told(description: str, filled: dict[str, Any]) -> list[str | None]:
    verdict = Verdict(Phase.FAILED, "failed", (KILLED, AFTERWARDS, OTHER))
    return [finding.hint for finding in hints.reworded(verdict, filled, definition(description)).findings]


@pytest.mark.parametrize(
    ("description", "filled", "raised"),
    [
        (
            "resources:\n  memory: (Optional) default 512Mi",
            {"resources": {"memory": "1Gi"}},
            "raise resources.memory, which is 1Gi",
        ),
        ("resources:\n  memory: (Optional) default 512Mi", {}, "fill in resources.memory"),
        ("resources: {}", {"resources": {"cpu": 1}}, "fill in resources.memory"),
        ("resources:\n  cpu: (Optional) how much", {}, "raise the memory limit in the template digits-task"),
    ],
)
def test_the_hint_names_the_value_to_fill_in(description: str, filled: dict[str, Any], raised: str) -> None:
    hint = f"{raised}, or reduce the memory use"
    assert told(description, filled) == [hint, f"check that the result is complete; {hint}", "read its log"]


def test_of_a_package_it_names_the_package() -> None:
    origin = PackageOrigin(source="p", name="p", digest="0" * 64, overlay="single-node", options=[], keys=[])
    packaged = replace(definition("resources: {}"), origin=origin)
    verdict = hints.reworded(Verdict(Phase.FAILED, "failed", (KILLED,)), {}, packaged)
    expected = "raise limits.memory in the package, and register its definition again, or reduce the memory use"
    assert verdict.findings[0].hint == expected


RANK = Finding(
    "Error", "pod/x-launcher-1", "a rank was killed", f"the limit of each worker is 2Gi: {oomkilled.LIKELY_HINT}"
)


@pytest.mark.parametrize(
    ("description", "filled", "raised"),
    [
        ("resources: {}", {"resources": {"memory": "2Gi"}}, "raise resources.memory, which is 2Gi"),
        ("resources: {}", {}, "fill in resources.memory"),
        ("process: {}", {}, "raise the memory limit in the template digits-task"),
    ],
)
def test_of_a_killed_rank_it_names_the_value_too(description: str, filled: dict[str, Any], raised: str) -> None:
    verdict = Verdict(Phase.FAILED, "failed", (RANK,))
    assert hints.is_for_owners(verdict)
    finding = hints.reworded(verdict, filled, definition(description)).findings[0]
    assert finding.hint == f"the limit of each worker is 2Gi: {raised}, or reduce the memory use"


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ("request less in the overlay's resources; see the nodes", "request less {place}; see the nodes"),
        ("correct the job in the overlay, then deploy it with --replace", "correct the job {place}"),
        ("deploy it again with --replace", "run it again"),
    ],
)
def test_other_hints_name_no_overlay_either(own: str, words: str) -> None:
    verdict = Verdict(Phase.PENDING, "pending", (Finding("Unschedulable", "pod/x", "no node has room", own),))
    assert hints.is_for_owners(verdict)
    template = definition("resources: {}")
    origin = PackageOrigin(source="p", name="p", digest="0" * 64, overlay="single-node", options=[], keys=[])
    for kind, place in (
        (template, "in the template digits-task"),
        (replace(template, origin=origin), "in the package"),
    ):
        assert hints.reworded(verdict, {}, kind).findings[0].hint == words.format(place=place)


@pytest.mark.parametrize(
    ("own", "of_template", "of_package"),
    [
        (
            "the node cannot reach the registry: check REGISTRY in mlops.env",
            "the node cannot reach the registry: check the image in the definition or in the template digits-task",
            "the node cannot reach the registry: check env.REGISTRY in the definition's system_values",
        ),
        (
            "add TOKEN to the Secret hub: `mlpack secret create PACKAGE --force`",
            "add TOKEN to the Secret hub",
            "add TOKEN to the Secret hub",
        ),
    ],
)
def test_hints_name_no_file_of_a_package(own: str, of_template: str, of_package: str) -> None:
    verdict = Verdict(Phase.PENDING, "pending", (Finding("ErrImagePull", "pod/x", "it cannot be pulled", own),))
    assert hints.is_for_owners(verdict)
    template = definition("resources: {}")
    origin = PackageOrigin(source="p", name="p", digest="0" * 64, overlay="single-node", options=[], keys=[])
    packaged = replace(template, origin=origin)
    assert hints.reworded(verdict, {}, template).findings[0].hint == of_template
    assert hints.reworded(verdict, {}, packaged).findings[0].hint == of_package


def test_other_hints_are_for_users_too() -> None:
    assert hints.is_for_owners(Verdict(Phase.FAILED, "failed", (OTHER, KILLED)))
    assert not hints.is_for_owners(Verdict(Phase.FAILED, "failed", (OTHER,)))
