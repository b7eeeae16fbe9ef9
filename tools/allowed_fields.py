"""Writes the section of docs/security.md that lists what objects may contain: `python -m tools.allowed_fields`."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from packager.kubernetes.allowed import table
from packager.verify.objects import MADE

if TYPE_CHECKING:
    from packager.kubernetes.allowed.table import Row

DOCUMENT = Path(__file__).resolve().parents[1] / "docs/security.md"

_START = "<!-- Made of packager/kubernetes/allowed/fields.txt by `make docs`. -->"
_END = "<!-- The end of what is made. -->"
_SECTION = re.compile(f"{re.escape(_START)}.*?{re.escape(_END)}", re.DOTALL)
_WIDTH = 120

_TITLES = {
    table.OBJECT: "metadata of every object",
    table.POD: "every pod and pod template",
    "container": "every container",
    "probe": "every probe",
    "podterm": "every term of `podAffinity` and `podAntiAffinity`, which counts pods of the same namespace",
    "jobspec": "the `spec` of a Job, also in a JobSet",
}
_MAKERS = {
    table.BUILD: "",
    table.TEMPLATE: "only in a template of an administrator",
    "Secret": "reported as the use of a Secret",
    "ServiceAccount": "reported as the use of a service account",
}


def reference() -> str:
    """Return docs/security.md with the section as the table has it."""
    return _SECTION.sub(lambda _: f"{_START}\n\n{_section()}\n\n{_END}", DOCUMENT.read_text(encoding="utf-8"))


def _section() -> str:
    groups: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
    for row in table.rows():
        groups.setdefault((row.where, row.who), []).append(row)
    kinds = {kind.lower(): kind for _, kind in MADE} | {"secret": "Secret"}
    items = []
    for (where, who), rows in groups.items():
        maker = _maker(who)
        title = _TITLES.get(where) or f"{kinds[where]}"
        head = f"- {title[0].upper()}{title[1:]}{f', {maker}' if maker else ''}: "
        items.append(_wrapped(head + ", ".join(map(_shown, rows))))
    return "\n".join(items)


def _maker(who: tuple[str, ...]) -> str:
    options = [f"`{name}`" for name in who if name not in _MAKERS]
    others = [_MAKERS[name] for name in who if _MAKERS.get(name)]
    if not options:
        return "".join(others)
    one = f"with the option {options[0]}" if len(options) == 1 else f"with one of the options {', '.join(options)}"
    return f"{one}, or {others[0].removeprefix('only ')}" if others else one


def _shown(row: Row) -> str:
    is_free = row.value in (table.ANY, table.ALL) or row.value in table.NESTED
    return f"`{row.what}`" if is_free else f"`{row.what}` ({table.expected(row.value)})"


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(reference())
