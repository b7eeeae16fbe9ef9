"""Test the hints for the user of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert
from packager.kubernetes.remedy import Action, Remedy
from packager.service.jobs.user_hints import HINTS, hint_for_user
from packager.service.registry import definitions
from packager.service.registry.bodies import DefinitionBody

if TYPE_CHECKING:
    from packager.service.registry.definitions import Definition

VALUES = {
    name: f"some-{name}"
    for name in ("controller", "key", "kind", "limit", "name", "object", "policy", "queue", "resource", "role", "verb")
}


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


OF_TEMPLATE = definition("process: {}")


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
        ("process: {}", {}, "raise the memory limit in the template digits-task"),
    ],
)
def test_memory_hints_name_the_value_to_fill_in(description: str, filled: dict[str, Any], raised: str) -> None:
    expected = f"{raised}, or reduce the memory use"
    for remedy, hint in (
        (Remedy(Action.RAISE_MEMORY), expected),
        (Remedy(Action.CHECK_RESULT), f"check that the result is complete; {expected}"),
        (
            Remedy.of(Action.RAISE_MEMORY_OF_ROLE, role="worker", limit="2Gi"),
            f"the limit of each worker is 2Gi: {expected}",
        ),
        (
            Remedy.of(Action.RAISE_LIKELY_MEMORY, limit="2Gi"),
            f"usually for exceeding its memory limit of 2Gi: {expected}",
        ),
    ):
        assert hint_for_user(remedy, filled, definition(description)) == hint


@pytest.mark.parametrize(
    ("action", "hint"),
    [
        (Action.REQUEST_LESS, "request less in the template digits-task"),
        (Action.RUN_AGAIN, "run it again"),
        (
            Action.REACH_REGISTRY,
            "the node cannot reach the registry: check the image in the definition or in the template digits-task",
        ),
    ],
)
def test_hints_name_the_source_of_the_objects(action: Action, hint: str) -> None:
    assert hint_for_user(Remedy(action), {}, OF_TEMPLATE) == hint


def test_hints_for_users_need_neither_kubectl_nor_files_of_a_package() -> None:
    for action in Action:
        hint = hint_for_user(Remedy.of(action, **VALUES), {}, OF_TEMPLATE)
        for word in ("kubectl", "mlpack ", "mlops.env", "overlay", "--replace", "{", "deploy"):
            assert word not in hint


def test_every_action_has_words_for_users() -> None:
    assert set(HINTS) == set(Action)
