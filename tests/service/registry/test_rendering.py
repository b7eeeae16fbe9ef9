"""Values cannot change the structure of rendered objects, and templates can only fill in values."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packager.base import yamlio
from packager.service.registry import rendering
from packager.service.registry.rendering import Renderer
from tests.service import bodies

VALUES: dict[str, Any] = {
    "global": {"release": "demo-1", "taskDef": "digits", "application": "demo", "creator": "ada"},
    "configs": {"global": "{}", "dataset": "{}", "process": "{}"},
    "process": {"train": {"number": 5}},
    "resources": {"storage": None},
    "image": {"repository": "registry.example.com/digits", "tag": "cpu"},
}

HOSTILE = [
    'x"\nspec:\n  hostNetwork: true\n#',
    "'}\n---\nkind: Pod",
    "{{ 7*7 }}",
    "{% for x in range(9) %}",
    "$(reboot)`id`",
    "a\r\nb: c",
    "\0",
    "&x *x !!python/object:os.system",
    "\u2028\u0085\ufeff",
    "v000000000000n0e",
    "- [",
    "|\n  x",
]


def test_hostile_values_keep_the_structure_of_the_template(renderer: Renderer) -> None:
    for text in HOSTILE:
        names = {**VALUES["global"], "creator": text}
        rendered = renderer.render(bodies.TEMPLATE, {**VALUES, "global": names, "configs": {"global": text}})
        assert rendered.problems == ()
        job, claim, config = rendered.objects
        assert config["data"] == {"globalCfg": text, "datasetCfg": "null", "processCfg": "null"}
        assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
        assert job["metadata"]["labels"]["creator"] == text
        assert job["spec"].keys() == {"backoffLimit", "template"}
        pod = job["spec"]["template"]["spec"]
        assert pod.keys() == {"restartPolicy", "containers", "nodeSelector", "volumes"}
        assert pod["containers"][0]["image"] == "registry.example.com/digits:cpu"
        assert pod["containers"][0]["imagePullPolicy"] == "Always"
        assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}


TEXTS = st.text(max_size=300) | st.sampled_from(HOSTILE)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


@pytest.mark.thorough
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=SCALARS, name=TEXTS)
def test_rendered_values_equal_the_given_values(renderer: Renderer, value: Any, name: str) -> None:
    template = 'a: {{ x }}\nb: "{{ y }}"\nc: <{{ y }}>\nd: |\n  {{ y }}\n  end\ne: [{{ x }}, "{{ y }}"]\n'
    rendered = renderer.render(template, {"x": value, "y": name})
    assert rendered.problems == ()
    expected = {"a": value, "b": name, "c": f"<{name}>", "d": f"{name}\nend\n", "e": [value, name]}
    assert rendered.objects == (expected,)


def test_plain_scalars_keep_types_and_quoted_scalars_are_text(renderer: Renderer) -> None:
    template = "a: {{ x }}\nb: '{{ x }}'\nc: {{ y }}\nd: {{ y.k }}{{ x }}\ne: 007\nf: yes\n"
    rendered = renderer.render(template, {"x": 5, "y": {"k": True}})
    assert rendered.objects == ({"a": 5, "b": "5", "c": {"k": True}, "d": "true5", "e": "007", "f": "yes"},)


@pytest.mark.parametrize(
    ("template", "line", "message"),
    [
        ("a: 1\nb: {{ process.train.steps }}", 2, "steps is not defined"),
        ("a: {{ nothing }}", 1, "nothing is not defined"),
        ("a: {{ nothing.more }}", 1, "'nothing' is undefined"),
        ("# {{ process }}", 1, "an expression can only be written into a value, not into a key or a comment"),
        ("a: 1\n{{ process }}: 1", 2, "an expression can only be written into a value, not into a key or a comment"),
        ("x{{ process }}y: 1", 1, "an expression can only be written into a value, not into a key or a comment"),
        ("a: &x {{ process }}", 1, "anchors are not allowed here, found &x"),
        ("a: 1\nb: !!binary {{ process }}", 2, "YAML tags are not allowed here, found tag:yaml.org,2002:binary"),
        ("- {{ process }}", 1, "expected a Kubernetes object"),
        ("a: 1\na: 2", 2, "duplicate key 'a'"),
        ("a: 1\n<<: {b: 2}", 2, "<< is not allowed here: not every YAML parser merges keys"),
        ("a:\n  yes: {{ process }}", 2, "the key 'yes' is not text for every YAML parser"),
        ("a: {{ 1 / 0 }}", 1, "division by zero"),
        ("a: {{ process.items }}", 1, "an expression has a value that is not data: builtin_function_or_method"),
        ("\n---\n".join("a: 1" for _ in range(21)), 0, "expected at most 20 objects, found 21"),
        ("a: " + "x" * (257 << 10), 0, "expected at most 256 KiB, found 257 KiB"),
    ],
)
def test_render_reports_faults_with_their_lines(renderer: Renderer, template: str, line: int, message: str) -> None:
    rendered = renderer.render(template, VALUES)
    assert rendered.objects == ()
    assert (rendered.problems[0].line, rendered.problems[0].message) == (line, message)


def test_placeholder_of_another_rendering_is_text(renderer: Renderer) -> None:
    rendered = renderer.render("a: {{ x }}\nb: v0123456789abn0e", {"x": "v0123456789abn1e"})
    assert rendered.objects == ({"a": "v0123456789abn1e", "b": "v0123456789abn0e"},)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a: {{ 'x' * 10**10 }}", "the template takes more than 512 MiB of memory"),
        ("a: {{ [x * 100] * 20 }}", "the values of the expressions are larger than 4 MiB"),
        ("{% for a in range(99) %}{{ x * 9 }}{% endfor %}", "the values of the expressions are larger than 4 MiB"),
        pytest.param(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "the template takes more than 2 seconds of processor time",
            marks=pytest.mark.thorough,
        ),
        ("{% for a in range(99999) %}{{ a }}{{ a }}{% endfor %}", "the template writes more than 512 KiB"),
        ("a: {{ x }}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}", "the objects are larger than"),
        ("{% for a in range(10**9) %}{% endfor %}", "Range too big."),
        ("{% for a in range(21) %}---\na: 1\n{% endfor %}", "expected at most 20 objects, found 21"),
    ],
)
def test_template_over_a_limit_is_refused_with_that_limit(renderer: Renderer, template: str, message: str) -> None:
    rendered = renderer.render(template, {"x": "y" * 60_000})
    assert rendered.objects == ()
    assert rendered.problems[0].message.startswith(message)
    assert renderer.render("a: {{ x }}", {"x": 1}).objects == ({"a": 1},)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a: {{ 1e400 }}", "an expression has a number that is infinite or undefined"),
        ("a: {{ x * 1e300 * 1e300 }}", "an expression has a number that is infinite, undefined or too long"),
        ("a: {{ n ** 5000 }}", "an expression has a number that is infinite, undefined or too long"),
        ("a: {{ y }}", "an expression has a number that is infinite, undefined or too long"),
    ],
)
def test_number_that_no_manifest_can_have_is_refused(renderer: Renderer, template: str, message: str) -> None:
    rendered = renderer.render(template, {"n": 10, "x": 1e8, "y": {"z": float("inf")}})
    assert (rendered.objects, rendered.problems[0].message) == ((), message)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("os.kill(os.getpid(), 9)", "the process that fills in templates was killed (SIGKILL)"),
        ("sys.exit(3)", "the process that fills in templates has ended"),
    ],
)
def test_end_of_the_sandbox_is_reported_with_its_cause(monkeypatch: pytest.MonkeyPatch, end: str, message: str) -> None:
    program = f"import os, sys; sys.stdin.readline(); {end}"
    monkeypatch.setattr(rendering, "_SANDBOX", (sys.executable, "-c", program))
    renderer = Renderer()
    assert renderer.render("a: 1", {}).problems[0].message == message
    assert renderer.check("a: 1")[0].message == message
    renderer.close()


def test_values_over_64_kib_are_refused(renderer: Renderer) -> None:
    rendered = renderer.render("a: 1", {"x": "y" * (64 << 10)})
    assert rendered.problems[0].message == "expected at most 64 KiB, found 64 KiB"


def test_template_is_parsed_once_for_all_values(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    template = 'kind: X\na: {{ x }}\nb: "<{{ y }}>"\n{% if z %}\nc: [{{ z }}, {{ x }}]\n{% endif %}\n'
    values: list[dict[str, Any]] = [{"x": 1, "y": {"k": [2]}, "z": 0}, {"x": "v000000000000n0e", "y": None, "z": "- ["}]
    expected: list[dict[str, Any]] = [
        {"kind": "X", "a": 1, "b": '<{"k":[2]}>'},
        {"kind": "X", "a": "v000000000000n0e", "b": "<null>", "c": ["- [", "v000000000000n0e"]},
    ]
    assert [renderer.render(template, names).objects for names in values] == [(item,) for item in expected]

    def read_again(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(yamlio, "load_all", read_again)
    objects = [renderer.render(template, names).objects[0] for names in reversed(values)]
    assert objects == expected[::-1]
    objects[0]["c"].append("changed")
    assert renderer.render(template, values[1]).objects == (expected[1],)


def test_template_that_writes_placeholders_is_refused(renderer: Renderer) -> None:
    word = f"{rendering._MARK}0e"  # noqa: SLF001 - the secret mark
    for template in (f"a: {word}", f"a: {{{{ x }}}}\nb: {word}", f"{word}: {{{{ x }}}}", f"# {word}"):
        rendered = renderer.render(template, {"x": 1})
        assert [problem.message for problem in rendered.problems] == [
            "the template changes what an expression has written"
        ]
