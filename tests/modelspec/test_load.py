"""Reading a spec: its values, its settings, and an answer for every document there can be."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from packager.base.errors import SpecError, UsageError
from packager.base.fields import Parameter, Resources, text
from packager.modelspec.load import load
from packager.modelspec.model import Spec
from packager.modelspec.settings import parse_setting
from packager.modelspec.validation import validate
from packager.workloads.mpijob.values import MPIJob
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.modelspec.load import LoadedSpec


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., LoadedSpec]:
    def read(*settings: str, spec: str = demo.SPEC) -> LoadedSpec:
        return load(demo.write(tmp_path, spec), [parse_setting(setting) for setting in settings])

    return read


def test_load_returns_values_text_digest_and_sources(loaded: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    got = loaded()
    assert got.spec.name == "demo"
    assert got.spec.overlays["multi-node"] == MPIJob()
    assert got.text == demo.SPEC.encode()
    assert got.digest == hashlib.sha256(demo.SPEC.encode()).hexdigest()
    assert [(file.name, file.path, file.size) for file in got.sources.files] == [
        ("train.sh", tmp_path / "train.sh", len(demo.SCRIPT))
    ]


def test_bundled_specs_are_valid() -> None:
    for path in sorted((demo.CHECKOUT / "model_specs").glob("*/*spec.yaml")):
        assert load(path).spec.name == (path.name.removesuffix("spec.yaml").rstrip(".") or path.parent.name)


def test_environment_values_keep_their_spelling(loaded: Callable[..., LoadedSpec]) -> None:
    spec = demo.changed("environment: {A: yes, B: 010, C: 1.10, D: 0.5, E: false, F: '1'}")
    environment = loaded(spec=spec).spec.environment
    values = {key: text(value) for key, value in environment.items() if not isinstance(value, Parameter)}
    assert values == {"A": "yes", "B": "010", "C": "1.10", "D": "0.5", "E": "false", "F": "1"}


def test_settings_change_any_field(loaded: Callable[..., LoadedSpec]) -> None:
    spec = loaded(
        "title=1.0",
        "image.tag=2.0",
        "overlays.multi-node.workers=4",
        r"overlays.single-node.resources.limits.nvidia\.com/gpu=1",
        "variants.0.precision=",
        "variants.1.script=train.sh",
        "variants.1.mode=inference",
        "aliases.0=trial",
    ).spec
    assert (spec.title, spec.image.tag, spec.aliases) == ("1.0", "2.0", ["trial"])
    assert spec.overlays["multi-node"] == MPIJob(workers=4)
    assert spec.overlays["single-node"].resources == Resources(limits={"nvidia.com/gpu": 1})
    assert [variant.label for variant in spec.variants] == ["training", "inference"]


def test_setting_changes_a_variable_of_any_environment(loaded: Callable[..., LoadedSpec]) -> None:
    text = demo.changed("environment: {STEPS: 3, EMPTY: x}")
    spec = loaded("environment.STEPS=100", "environment.EMPTY=", "variants.0.environment.STEPS=7", spec=text).spec
    assert spec.environment == {"STEPS": 100, "EMPTY": ""}
    assert spec.variants[0].environment == {"STEPS": 7}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("environment.STEP=4", "the spec has no variable 'STEP' (did you mean 'STEPS'?)"),
        ("environment.DEBUG=1", "the spec has no variable 'DEBUG' (--add environment.DEBUG=VALUE adds it)"),
        ("overlays.multi-node.environment.STEP=4", "the spec has no variable 'STEP' (did you mean 'STEPS'?)"),
    ],
)
def test_setting_of_an_unknown_variable_is_refused(
    loaded: Callable[..., LoadedSpec], setting: str, message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(setting, spec=demo.changed("environment: {STEPS: 3}"))
    assert [str(problem) for problem in refused.value.problems] == [f"--set {setting.partition('=')[0]}: {message}"]


def test_addition_makes_a_variable_that_a_setting_may_describe(tmp_path: Path) -> None:
    settings = [
        parse_setting("overlays.multi-node.environment.DEBUG.value=1", adds=True),
        parse_setting("overlays.multi-node.environment.DEBUG.description=Says more."),
    ]
    spec = load(demo.write(tmp_path, demo.SPEC), settings).spec
    assert spec.overlays["multi-node"].environment == {"DEBUG": Parameter(value=1, description="Says more.")}


def test_addition_of_a_declared_variable_is_refused(tmp_path: Path) -> None:
    path = demo.write(tmp_path, demo.changed("environment: {STEPS: 3}"))
    with pytest.raises(SpecError) as refused:
        load(path, [parse_setting("environment.STEPS=4", adds=True)])
    message = (
        "--add environment.STEPS: the spec has the variable STEPS already (--set environment.STEPS=VALUE changes it)"
    )
    assert [str(problem) for problem in refused.value.problems] == [message]


def test_setting_keeps_description_of_a_parameter(loaded: Callable[..., LoadedSpec]) -> None:
    spec = demo.changed("environment: {STEPS: {value: 3, description: How many.}}")
    environment = loaded("environment.STEPS=100", spec=spec).spec.environment
    assert environment == {"STEPS": Parameter(value=100, description="How many.")}


def test_setting_requires_path_and_value_in_utf8_and_addition_a_variable() -> None:
    for argument in ("", "a", "=1", "a..b=1", ".a=1", "a.=1"):
        with pytest.raises(UsageError, match=r"expected PATH=VALUE, such as environment\.STEPS=100") as refused:
            parse_setting(argument)
        assert refused.value.exit_code == 2
    with pytest.raises(UsageError, match=r"--set 'environment\.A=.udcff': expected UTF-8 text"):
        parse_setting("environment.A=\udcff")
    hint = "--set title=VALUE changes a field of the spec"
    with pytest.raises(UsageError, match=r"--add title=x: expected environment\.KEY=VALUE") as refused:
        parse_setting("title=x", adds=True)
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            f"environment: {{{', '.join(f'A{n}: 1' for n in range(2_001))}}}",
            "expected at most 2,000 entries, found 2,001",
        ),
        (f"overlays: => overlays:{''.join(f'{chr(10)}  o{n}: {{kind: Pod}}' for n in range(99))}", "at most 100 keys"),
    ],
    ids=["environment", "overlays"],
)
def test_spec_has_a_limited_number_of_entries(change: str, problem: str, tmp_path: Path) -> None:
    problems = demo.problems(demo.write(tmp_path, demo.changed(change)))
    assert len(problems) == 1
    assert problem in problems[0]


def test_load_refuses_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.yaml: no such file or directory") as refused:
        load(tmp_path / "absent.yaml")
    assert refused.value.problems == ()
    with pytest.raises(SpecError, match="is a directory"):
        load(tmp_path)


# Documents like a spec: its own keys and values with some of them changed for anything.
_KEYS = st.sampled_from(
    [
        *("name", "title", "framework", "image", "files", "overlays", "variants", "package", "aliases", "environment"),
        *("resources", "requests", "limits", "kind", "workers", "processes", "mpi", "precision", "mode", "script"),
        *("value", "description", "tag", "single-node", "multi-node", "cpu", "A", "x"),
    ]
)
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3) | st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["demo", "train.sh", "Pod", "MPIJob", "fp32", "1.0", "500m", "4Gi", "single-node", "x\n", "../x"]),
    st.text(),
)
_DOCUMENTS = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(), inner, max_size=5)
)


def _places(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the location of each value of a document."""
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inner:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*above, key))


def _changed(document: Any, place: tuple[Any, ...], value: Any = ..., key: str | None = None) -> Any:
    """Return a copy with another value, or key, at `place`; without either, with nothing there."""
    copy = deepcopy(document)
    holder = copy
    for step in place[:-1]:
        holder = holder[step]
    before = holder.pop(place[-1])
    if isinstance(holder, dict):
        if value is not ... or key is not None:
            holder[key or place[-1]] = before if value is ... else value
    elif value is not ...:
        holder.insert(place[-1], value)
    return copy


@st.composite
def _mutated(draw: st.DrawFn) -> Any:
    document = yaml.safe_load(demo.SPEC)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if places:
            value = draw(_DOCUMENTS | st.just(...))
            document = _changed(document, draw(st.sampled_from(places)), value, draw(_KEYS | st.none()))
    return document


@pytest.mark.thorough
@settings(max_examples=60)
@given(document=_DOCUMENTS | _mutated())
def test_schema_and_types_accept_the_same_documents(document: Any) -> None:
    try:
        msgspec.convert(document, Spec)
    except msgspec.ValidationError:
        assert validate(document) != []
    else:
        assert validate(document) == []


_FULL = demo.changed(
    "kind: Pod => kind: Pod, resources: {requests: {cpu: 2, a.com/b: 1}, limits: {cpu: 3, a.com/b: 1}}",
    "kind: MPIJob => kind: MPIJob, workers: 3, slots_per_worker: 4, processes: 12",
    "  - {precision: fp32, mode: inference, script: test.py, overlays: [multi-node], environment: {A: 1}}",
    "[train.sh] => [train.sh, test.py]",
    "aliases: [trial, other]",
    "package: demo-a",
    "environment: {A: x, B: {value: 2, description: C}}",
)


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", [None, [], {"x": None}, ...], ids=repr)
def test_wrong_value_causes_no_other_problem(tmp_path: Path, wrong: Any) -> None:
    """A stand-in replaces a value of the wrong type; nothing is concluded from it."""
    document = yaml.safe_load(_FULL)
    (tmp_path / "test.py").write_text("#!/usr/bin/env python3\n")
    assert _messages(tmp_path, document) == []
    blamed = {}
    for place in _places(document):
        changed = _changed(document, place, wrong)
        expected = [finding.message for finding in validate(changed)]
        if expected and sorted(_messages(tmp_path, changed)) != sorted(expected):
            blamed[place] = set(_messages(tmp_path, changed)) - set(expected)
    assert blamed == {}


def _messages(folder: Path, document: Any) -> list[str]:
    try:
        load(demo.write(folder, yaml.safe_dump(document, allow_unicode=True)))
    except SpecError as error:
        return [problem.message for problem in error.problems] or [str(error)]
    return []
