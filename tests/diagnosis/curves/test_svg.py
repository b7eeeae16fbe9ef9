from __future__ import annotations

from xml.etree import ElementTree as ET

from packager.diagnosis.curves.figure import figures
from packager.diagnosis.curves.points import added
from packager.diagnosis.curves.svg import document

SVG = "{http://www.w3.org/2000/svg}"


def tree(*lines: str, pod: str = "p-0") -> ET.Element:
    return ET.fromstring(document(figures(list(added({}, pod, lines).values()))))  # noqa: S314 - our own


def test_each_name_has_a_title_and_a_line() -> None:
    root = tree('{"step": 1, "loss": 3, "lr": 0.1}', '{"step": 2, "loss": 2, "lr": 0.1}')
    titles = [item.text for item in root.iter(f"{SVG}text") if item.get("class") == "title"]
    assert titles == ["loss", "lr"]
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
    assert "p-0: 2 at step 2" in {item.text for item in root.iter(f"{SVG}text")}


def test_names_from_a_log_are_text() -> None:
    name = "</text><script>alert(1)</script>"
    root = tree(f'{{"step": 1, "{name}": 3}}', pod='p" onload="x')
    assert not list(root.iter(f"{SVG}script"))
    assert name in {item.text for item in root.iter(f"{SVG}text")}
    assert not any("onload" in item.attrib for item in root.iter())


def test_gaps_of_values_that_are_not_finite_divide_a_line() -> None:
    root = tree(*(f'{{"step": {step}, "loss": {value}}}' for step, value in enumerate(("1", "2", "NaN", "3", "4"))))
    assert len(list(root.iter(f"{SVG}polyline"))) == 2
