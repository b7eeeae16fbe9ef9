"""Definition + filled values -> the values of a template. Tests: service/registry/test_definitions.py."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.names import LETTER_FIRST, is_label_value
from packager.base.problems import Fault, show
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packager.base.values import Json

RESERVED = {
    "global": "is made by the service",
    "configs": "is made by the service",
    "process": "is filled in by users",
}
"""The reason for each top-level value that `system_values` may not set."""

ALWAYS_SYSTEM = "image"
"""A top-level value that users may never set, even if `system_values` lacks it."""

MASK = "***"
"""The text in place of a secret."""

LABEL_FORM = "use at most 63 letters, digits and '-_.', with a letter or digit at both ends"
"""The form of a name that becomes the value of a label, as a hint."""

LONGEST_RELEASE = 50
_LONGEST_WITH_ROLES = 36
"""The maximum length of a job's name, so that controllers can append to it in the names of pods; the second one for
kinds that also append a role and the numbers of a job and a pod."""

_WITH_ROLES = re.compile(r"^kind: *[\"']?(?:JobSet|MPIJob)", re.MULTILINE)


def release_name(definition: str, application: str, template: str = "") -> str:
    """Return a new name for a job: a DNS label that begins with a letter, short enough for the kinds in a template."""
    longest = _LONGEST_WITH_ROLES if _WITH_ROLES.search(template) else LONGEST_RELEASE
    words = re.sub("[^a-z0-9]+", "-", f"{definition}-{application}".lower()).strip("-")
    if not re.fullmatch(LETTER_FIRST, words):
        words = f"job-{words}".strip("-")
    return f"{words[: longest - 7].rstrip('-')}-{secrets.token_hex(3)}"


def label_faults(filled: Mapping[str, Json]) -> Iterator[Fault]:
    """Yield a fault for a creator or an application that is not a valid label value, because both become labels."""
    for key in ("creator", "name"):
        value = filled.get(key)
        if value is not None and not isinstance(value, dict | list) and not is_label_value(str(value)):
            yield Fault((key,), f"expected a name such as nightly, found {show(value)}", LABEL_FORM)


class Names(Value, frozen=True):
    """The names in a job."""

    release: str  # the name of the job
    definition: str
    application: str  # the application of the definition, which is used if the user has not filled in one
    creator: str  # the creator of the job


def template_values(filled: Mapping[str, Json], system: Mapping[str, Json], names: Names) -> dict[str, Json]:
    """Return the values of a template."""
    named: dict[str, Json] = {
        "release": names.release,
        "taskDef": names.definition,
        "application": str(filled.get("name") or names.application or names.definition),
        "creator": names.creator,
    }
    described = {"name": filled.get("name"), "description": filled.get("description")}
    endpoints: list[Json] = [
        {key: value for key, value in item.items() if key != "headers"} if isinstance(item, dict) else item
        for item in listing(filled.get("endpoints"))
    ]
    datasets: list[Json] = [item for item in endpoints if mapping(item).get("type") == "dataset"]
    process = mapping(filled.get("process"))
    own: dict[str, Json] = {
        "global": named,
        "configs": {
            "global": jsonio.compact({**named, **described}, sort_keys=True),
            "dataset": jsonio.compact({"endpoints": datasets}, sort_keys=True),
            "process": jsonio.compact(process, sort_keys=True),
        },
        "process": process,
        "endpoints": endpoints,
    }
    others = {
        key: value
        for key, value in filled.items()
        if key not in (*own, "taskDef", "name", "creator", "description") and value is not None
    }
    return _merged({**others, **own}, {key: value for key, value in system.items() if key not in RESERVED})


def _merged(values: Mapping[str, Json], over: Mapping[str, Json]) -> dict[str, Json]:
    merged = dict(values)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def value_at(values: object, place: Sequence[str]) -> object:
    """Return the value at a place in nested mappings; None without one."""
    for key in place:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def put(values: Mapping[str, Json], place: Sequence[str], value: Json) -> dict[str, Json]:
    """Return a copy of nested mappings with a value at a place; None removes it."""
    key, *below = place
    new = put(mapping(values.get(key)), below, value) if below else value
    return {**{other: item for other, item in values.items() if other != key}, **({} if new is None else {key: new})}


def without(filled: Mapping[str, Json], secret_places: Iterable[Sequence[str]]) -> dict[str, Json]:
    """Return filled values for a template: without secrets."""
    for place in secret_places:
        filled = put(filled, place, None) if value_at(dict(filled), place) is not None else filled
    return dict(filled)


def masked(filled: Mapping[str, Json], secret_places: Iterable[Sequence[str]] = ()) -> dict[str, Json]:
    """Return filled values for callers, with *** in place of each value of a header and each secret."""
    copy = replaced_headers(filled, lambda _index, headers: dict.fromkeys(headers, MASK))
    for place in secret_places:
        copy = put(copy, place, MASK) if value_at(copy, place) is not None else copy
    return copy


def replaced_headers(filled: Mapping[str, Json], replace: Callable[[int, dict[str, Json]], Json]) -> dict[str, Json]:
    """Return filled values with the headers of each endpoint replaced by `replace(index, headers)`."""
    endpoints = filled.get("endpoints")
    if not isinstance(endpoints, list):
        return dict(filled)
    replaced: list[Json] = [
        {**mapping(item), "headers": replace(index, headers)}
        if isinstance(headers := mapping(item).get("headers"), dict)
        else item
        for index, item in enumerate(endpoints)
    ]
    return {**filled, "endpoints": replaced}


def dataset_headers(filled: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the dataset endpoints with headers, which are the content of the Secret `<release>-endpoints`."""
    endpoints = map(mapping, listing(filled.get("endpoints")))
    return [item for item in endpoints if item.get("type") == "dataset" and item.get("headers")]
