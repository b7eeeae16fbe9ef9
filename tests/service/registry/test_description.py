from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.service.failures import MOST, of_fault
from packager.service.registry import description
from tests.service import bodies

if TYPE_CHECKING:
    from packager.service.registry.description import Group


def described(text: str = bodies.DESCRIPTION) -> Group:
    group, problems = description.read(text)
    assert problems == []
    assert group
    return group


def complaints(filled: dict[str, Any], text: str = bodies.DESCRIPTION) -> list[tuple[str, str, str | None]]:
    found = [of_fault(fault) for fault in description.faults(described(text), filled)]
    return [(complaint.pointer, complaint.detail, complaint.hint) for complaint in found]


def test_example_and_filled_values_satisfy_the_description() -> None:
    assert complaints(yamlio.load(bodies.EXAMPLE.encode(), "example")[0].data) == []
    assert complaints(bodies.filled()) == []


def test_faults_are_reported_together_with_their_places() -> None:
    filled = bodies.filled(process={"train": {"maxSteps": 1}, "eval": {"batchSize": "ten"}, "model": 3}, extra=1)
    del filled["creator"]
    filled["resources"] = {"memory": "lots"}
    assert complaints(filled) == [
        ("/process/train/maxSteps", "unknown key 'maxSteps'", "did you mean 'maxStep'?"),
        ("/process/train/saveStep", "is missing: Steps between checkpoints", None),
        ("/process/eval/batchSize", "expected a whole number, found 'ten'", None),
        ("/process/model", "expected a mapping, found the number 3", None),
        ("/process/export/signatureMap", "is missing: Signature", None),
        ("/resources/memory", "expected a quantity such as 500m or 4Gi, found 'lots'", None),
        (
            "/extra",
            "unknown key 'extra'",
            "the keys are: taskDef, description, name, creator, endpoints, process, resources",
        ),
        ("/creator", "is missing: Who asks", None),
    ]


def test_mapping_is_required_when_it_has_a_required_leaf() -> None:
    filled = bodies.filled()
    del filled["process"]
    del filled["resources"]
    assert [pointer for pointer, _, _ in complaints(filled)] == [
        "/process/train/saveStep",
        "/process/export/signatureMap",
    ]


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([], [("/endpoints", "needs an item of type 'dataset'", None)]),
        (
            [{"endpoint": "s3://a", "type": "dataset"}, {"type": "events"}],
            [("/endpoints/1/type", "expected dataset or event, found 'events'", "did you mean 'event'?")],
        ),
        (
            [{"endpoint": "s3://a", "type": "dataset", "headers": {"a": 1}}],
            [("/endpoints/0/headers/a", "expected text, found the number 1", None)],
        ),
        ("s3://a", [("/endpoints", "expected a list, found 's3://a'", None)]),
        (
            ["s3://a"],
            [
                ("/endpoints/0", "expected a mapping, found 's3://a'", None),
                ("/endpoints", "needs an item of type 'dataset'", None),
            ],
        ),
    ],
)
def test_items_are_identified_by_their_type(endpoints: Any, expected: list[tuple[str, str, str | None]]) -> None:
    assert complaints(bodies.filled(endpoints=endpoints)) == expected


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["x"], [1, True]),
        ("integer", [1, -3], ["1", 1.5, True]),
        ("number", [1, 1.5], ["1", True]),
        ("boolean", [True], ["true", 1]),
        ("quantity", ["500m", 2, "4Gi"], ["4 Gi", True]),
        ("uri", ["s3://b/x", "https://e.example"], ["b/x", "s3://a b", 1]),
    ],
)
def test_types_of_values_are_checked(kind: str, good: list[Any], bad: list[Any]) -> None:
    text = f"x: (Required:{kind}) A value"
    assert all(complaints({"taskDef": "t", "x": value}, text) == [] for value in good)
    assert all([pointer for pointer, _, _ in complaints({"taskDef": "t", "x": value}, text)] == ["/x"] for value in bad)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: Number of steps", "expected a text that begins with (Required) or (Optional), found 'Number of steps'"),
        ("x: 3", "expected a text that begins with (Required) or (Optional), found the number 3"),
        ("x: []", "expected at least one kind of item"),
        ("x: [{type: (Required) a}, {type: (Optional) a}]", "two kinds of items have the type 'a'"),
        ("x: [{a: (Required) a}, {type: (Optional) a}]", "several kinds of items need a key 'type' each"),
        ("a: {b: {c: {d: {e: {f: {g: {h: {i: (Required) x}}}}}}}}", "is nested more than 8 levels deep"),
        ("a: [", "not valid YAML"),
        ("x" * (65 << 10), "expected at most 64 KiB"),
        ("x: \ud800", "expected text, found an unpaired surrogate"),
    ],
)
def test_faulty_description_is_refused_with_its_line(text: str, message: str) -> None:
    group, problems = description.read(text)
    assert group is None
    assert problems[0].message.startswith(message)
    assert problems[0].line in (1, 2)


def test_items_of_many_kinds_are_checked_in_linear_time() -> None:
    group = described("items:\n" + "".join(f"- type: (Optional) k{number}\n" for number in range(2600)))
    filled: dict[str, Any] = {"taskDef": "a", "items": [{"type": "none"} for _ in range(4500)]}
    begun = time.process_time()
    faults = description.faults(group, filled)
    assert time.process_time() - begun < 2
    assert len(faults) == MOST + 1


def test_only_items_of_the_list_endpoints_take_headers_and_events() -> None:
    text = "process:\n  sources:\n  - {endpoint: (Optional:uri) Where, type: (Optional) event}\n"
    source = {"endpoint": "https://a.example", "type": "event", "headers": {"x-api-key": "1"}, "events": ["failed"]}
    hint = "the keys are: endpoint, type"
    assert complaints({"taskDef": "a", "process": {"sources": [source]}}, text) == [
        ("/process/sources/0/headers", "unknown key 'headers'", hint),
        ("/process/sources/0/events", "unknown key 'events'", hint),
    ]
