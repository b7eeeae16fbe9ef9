"""Texts of others in each view: they make no element and no address of another site, and are shown as text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.service import bodies
from tests.service.page.conftest import Site, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "<img data-evil src=//evil.example/i onerror=evil()>"
HOSTILE = " ".join((
    MARK,
    "</pre></title></style></script><script data-evil>evil()</script>",
    "</textarea><b data-evil onclick=evil()>",
    "\"'><input data-evil autofocus onfocus=evil()>",
    "' onmouseover='evil()' data-evil='",
    "<base data-evil href=//evil.example/><link data-evil rel=stylesheet href=//evil.example/c>",
    "<meta data-evil http-equiv=refresh content='0;url=//evil.example/'>",
    "<form data-evil action=//evil.example/><a data-evil href=javascript:evil()>x</a>",
    "--><object data-evil data=//evil.example/></object><!--",
    "${evil()} {{evil()}} {{7*7}} <%= evil() %>",
))  # fmt: skip
INVISIBLE = "\x1b\x07\x85\u202e\u202c\u200b\u2066\u2028\ufeff\u00ad\u180e"
EVERYTHING = f"{HOSTILE} {INVISIBLE}"

ADDRESS = quote(HOSTILE[:900])
VIEWS: dict[str, str] = {
    "/jobs": "",
    f"/jobs?q={ADDRESS}": MARK,
    f"/jobs?creator={ADDRESS}": MARK,
    f"/jobs?status={ADDRESS}": "",
    "/jobs?definition=h": MARK,
    "/jobs/{release}": MARK,
    "/compare?job={release}": MARK,
    f"/jobs/{quote(MARK, safe='')}": "",
    f"/{quote(MARK, safe='')}": "",
    "/new": MARK,
    "/new/h": MARK,
    "/new/h?values_of={release}": MARK,
    "/definitions": MARK,
    "/definitions/h": MARK,
    f"/definitions/h?revision={ADDRESS}": "",
    "/templates": MARK,
    "/templates/h": MARK,
    "/overview": MARK,
    f"/sign-in?then={ADDRESS}&out={ADDRESS}": "",
}


class Elements(HTMLParser):
    """The elements and addresses of a view that hostile texts would make."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that no view has, and addresses of other sites."""
        of = dict(attrs)
        is_hostile = tag in ("iframe", "base", "object", "embed", "img") and of.get("src", "")[:8] != "/static/"  # type: ignore[index]
        if is_hostile or "data-evil" in of or (tag == "script" and "src" not in of) or any(n[:2] == "on" for n in of):
            self.found.append(self.get_starttag_text() or tag)
        addresses = (of.get(name) or "/" for name in ("href", "src", "action"))
        self.found += [one for one in addresses if one[:1] not in "/#?" or one.startswith(("//", "/\\"))]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A site on which each free text of every user, program and cluster is hostile, and the release of a job."""
    site = Site(tmp_path_factory.mktemp("hostile") / "server.db")
    with site.client:
        text = bodies.TEMPLATE + "{# " + HOSTILE.replace("{{", "{ {").replace("{%", "{ %") + " #}\n"
        template = {"name": "h", "template": text, "description": EVERYTHING}
        assert site.post("/v1/templates", template).status_code == 201
        description = bodies.DESCRIPTION.replace("(Required) What the job does", json.dumps(f"(Required) {EVERYTHING}"))
        example = bodies.EXAMPLE.replace("Trains on digits", json.dumps(EVERYTHING))
        definition = bodies.definition(
            name="h", task_template_name="h", description=EVERYTHING, user_values_description=description,
            user_values_example=example,
        )  # fmt: skip
        assert site.post("/v1/definitions", definition).status_code == 201
        process = {"train": {"saveStep": EVERYTHING}, "export": {"signatureMap": "x"}}
        answer = site.post("/v1/jobs", bodies.filled(taskDef="h", description=EVERYTHING, process=process))
        release = answer.json()["release"]
        site.until(lambda: ("Job", release) in site.cluster.objects, "the Job")
        metrics = [json.dumps({"step": step, MARK: 1 / (1 + step)}) + "\n" for step in range(3)]
        site.cluster.logs[f"{release}-x2x9p"] = [f"{EVERYTHING}\n", *metrics, f"{MARK} at the end\n"]
        site.cluster.pod(release, "Failed", exit_code=1, reason=EVERYTHING)
        site.cluster.end(release, "Failed")
        site.status(release, "failed")
        yield site, release


@pytest.mark.parametrize("path", VIEWS)
def test_hostile_texts_are_shown_as_text(hostile: tuple[Site, str], path: str) -> None:
    site, release = hostile
    elements = Elements()
    answer = site.view(path.format(release=release) if "{release}" in path else path)
    elements.feed(answer.text)
    assert elements.found == []
    assert VIEWS[path] in text_of(answer) or VIEWS[path] in answer.text.replace("&lt;", "<").replace("&gt;", ">")
    assert [character for character in INVISIBLE if character in text_of(answer)] == []
