"""The process that checks definitions: its answers, its limits and its confinement."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert
from packager.service.registry import check_process, definitions
from packager.service.registry.bodies import DefinitionBody
from packager.service.registry.checker import Checker
from packager.service.registry.policy import Site
from tests.service import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.service.registry.checker import CheckedDefinition
    from packager.service.registry.rendering import Renderer

SITE = Site("mine", node_selectors={"kops.k8s.io/ml-instance=true": {"a": "b"}}, allowed=frozenset(["label:team"]))


@pytest.fixture(scope="module")
def process() -> Iterator[Checker]:
    process = Checker()
    yield process
    process.close()


def check(process: Checker, template: str | None = bodies.TEMPLATE, **changes: Any) -> CheckedDefinition:
    return process.check(convert(bodies.definition(**changes), DefinitionBody), template, SITE)


def details(checked: CheckedDefinition) -> list[str]:
    return [complaint.detail for complaint in (*checked.complaints, *checked.refusals)]


@pytest.mark.parametrize(
    "template",
    [bodies.TEMPLATE, "kind: Pod\napiVersion: v1\n"],
)
def test_check_in_a_process_has_the_result_of_a_check_in_the_server(
    process: Checker, renderer: Renderer, template: str
) -> None:
    definition, complaints = definitions.read(convert(bodies.definition(), DefinitionBody))
    assert definition
    accepted, complaints = definitions.trial(definition, template, renderer, SITE)
    checked = check(process, template)
    assert checked.complaints == []
    assert (checked.refusals, checked.accepted.objects) == (complaints, accepted.objects)
    assert checked.accepted.remarks == accepted.remarks


def test_faults_of_a_definition_are_reported_without_a_template(process: Checker) -> None:
    checked = check(process, None, user_values_description="a: b\n", user_values_example="a: [", append_uuid="x")
    assert [complaint.pointer for complaint in checked.complaints] == [
        "/user_values_description",
        "/user_values_example",
        "/append_uuid",
    ]
    assert details(check(process, None)) == []


def test_many_complaints_are_counted_and_not_all_listed(process: Checker) -> None:
    checked = check(process, None, user_values_description="".join(f"k{number}: x\n" for number in range(2_000)))
    assert (len(checked.complaints), sum(complaint.count for complaint in checked.complaints)) == (51, 2_000)


@pytest.mark.parametrize(
    ("expression", "message"),
    [("{{ 'x' * 10**10 }}", "with the example filled in: template: the template takes more than 512 MiB of memory")],
)
def test_template_over_a_limit_is_refused_and_the_next_check_succeeds(
    process: Checker, expression: str, message: str
) -> None:
    assert details(check(process, f"{expression}\n{bodies.TEMPLATE}")) == [message]
    assert check(process).accepted.objects


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc of Linux")
def test_process_starts_with_the_first_check_is_confined_and_ends_when_closed() -> None:
    before = _children()
    process = Checker()
    assert _children() == before
    assert check(process).accepted.objects
    (child,) = _children() - before
    status = Path(f"/proc/{child}/status").read_text(encoding="utf-8")
    limits = Path(f"/proc/{child}/limits").read_text(encoding="utf-8")
    assert "NoNewPrivs:\t1\n" in status
    assert "Seccomp:\t2\n" in status
    assert "Max open files            0                    0" in limits
    assert "Max address space         536870912            536870912" in limits
    process.close()
    assert _children() == before


def _children() -> set[str]:
    """Return the ids of the running check processes that this process has started."""
    children = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_own = f"PPid:\t{os.getpid()}\n" in (path / "status").read_text(encoding="utf-8")
            if is_own and check_process.__name__ in (path / "cmdline").read_text(encoding="utf-8"):
                children.add(path.name)
        except OSError:
            continue
    return children
