from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.service.registry.rendering import confinement_gaps

if TYPE_CHECKING:
    from packager.service.registry.rendering import Renderer


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% include 'x' %}", "include cannot be used in a template"),
        ("{% from 'x' import x %}", "from … import cannot be used in a template"),
        ("{% extends 'x' %}", "extends cannot be used in a template"),
        ("{% block x %}{% endblock %}", "block cannot be used in a template"),
        ("{% macro x() %}{% endmacro %}", "macro cannot be used in a template"),
        ("{% filter upper %}x{% endfilter %}", "filter blocks cannot be used in a template"),
        ("{% set x %}y{% endset %}", "set blocks cannot be used in a template"),
        ("{{ ''.__class__ }}", "the attribute '__class__' cannot be used in a template"),
        ("{{ x | attr('format') }}", "No filter named 'attr'."),
        ("{{ x", "unexpected end of template, expected 'end of print statement'."),
    ],
)
def test_forbidden_constructs_are_refused_at_registration(renderer: Renderer, template: str, message: str) -> None:
    problems = renderer.check(f"a: 1\n{template}")
    assert [(problem.line, problem.message) for problem in problems] == [(2, message)]


ESCAPES = [
    "{{ x.__class__.__mro__[1].__subclasses__() }}",
    "{{ x['__cl' ~ 'ass__'].mro() }}",
    "{{ x[y] }}",
    "{{ x | map(attribute=y) | join }}",
    "{{ x | attr(y) }}",
    "{{ [x] | groupby(y) }}",
    "{{ x | selectattr(y) }}",
    "{{ x | sort(attribute=y) }}",
    "{{ '%(a)s' | format(a=x) }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(x) }}",
    "{{ '{x.__class__}'.format_map({'x': x}) }}",
    "{{ ('{0.' ~ y ~ '}').format(x) }}",
    "{{ x.append.__globals__ }}",
    "{{ x.append(1) }}",
    "{{ z.update(a=1) }}",
    "{{ range.__class__ }}",
    "{{ config }}",
    "{{ cycler }}",
    "{{ self }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ self._TemplateReference__context }}",
    "{{ open('/etc/passwd').read() }}",
    "{{ __builtins__ }}",
    "{{ environment.loader }}",
    "{% for a in x recursive %}{{ loop(x) }}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{% set a = x.__class__ %}{{ a }}",
    "{{ none.__class__ }}",
    "{{ undefined_name.__init__.__globals__ }}",
    "{{ x.__getitem__(0) }}",
    "{{ x.gi_frame.f_globals }}",
    "{% include y %}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_template_cannot_escape_from_its_values(renderer: Renderer, template: str) -> None:
    values = {"x": [1], "y": "__class__", "z": {"a": 1}}
    rendered = renderer.render(f"a: {template}", values)
    assert rendered.objects in ((), ({"a": ""},), ({"a": None},))
    assert bool(rendered.problems) is (rendered.objects == ())
    assert renderer.render("a: {{ x }}{{ z }}", values).objects == ({"a": '[1]{"a":1}'},)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc of Linux")
def test_rendering_process_is_confined(renderer: Renderer) -> None:
    assert renderer.render("a: 1", {}).objects == ({"a": 1},)
    assert confinement_gaps() == []
    children = [
        status
        for path in Path("/proc").glob("[0-9]*")
        if (status := _status(path)).get("PPid") == str(os.getpid()) and "registry.sandbox" in status["command"]
    ]
    assert children
    for status in children:
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert "Max open files            0                    0" in status["limits"]
        assert "Max processes             0                    0" in status["limits"]


def _status(process: Path) -> dict[str, str]:
    """Return the status, the command and the limits of a process from /proc; an empty mapping if it has ended."""
    try:
        lines = (process / "status").read_text(encoding="utf-8").splitlines()
        command = (process / "cmdline").read_text(encoding="utf-8")
        limits = (process / "limits").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {**{name: value.strip() for name, _, value in pairs}, "command": command, "limits": limits}


def test_template_filters_return_expected_values(renderer: Renderer) -> None:
    template = (
        "a: {{ x | sh }}\nb: {{ y | tojson }}\nc: {{ z | default(3) }}\nd: {{ x | upper | trim }}\n"
        "e: {{ [1, 2] | join('-') }}\nf: {{ '5' | int }}\ng: {{ 1.6 | round | int }}\nh: {{ x | length }}\n"
    )
    rendered = renderer.render(template, {"x": " a'b ", "y": {"k": "<é>", "a": 1}})
    assert rendered.objects == (
        {
            "a": "' a'\"'\"'b '",
            "b": '{"a":1,"k":"<é>"}',
            "c": 3,
            "d": "A'B",
            "e": "1-2",
            "f": 5,
            "g": 2,
            "h": 5,
        },
    )
