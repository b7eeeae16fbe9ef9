"""Definition + filled values -> the values of a template."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any

from packager.base.faults import Fault
from packager.base.names import LETTER_FIRST, is_label_value
from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes.manifest import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

RESERVED = {
    "global": "is made by the service",
    "configs": "is made by the service",
    "process": "is filled in by users",
}
"""Top-level values that `system_values` may not set, each with the reason."""

ALWAYS_SYSTEM = "image"
"""A top-level value that only `system_values` may set, even if it does not."""

MASK = "***"
"""What is shown in place of a secret."""

LONGEST_RELEASE = 50
"""How long the name of a job may be: what a controller appends to it has room in the names of pods."""


def release_name(definition: str, application: str, longest: int = LONGEST_RELEASE) -> str:
    """Return a new name for a job: a DNS label of at most `longest` characters that begins with a letter."""
    words = re.sub("[^a-z0-9]+", "-", f"{definition}-{application}".lower()).strip("-")
    if not re.fullmatch(LETTER_FIRST, words):
        words = f"job-{words}".strip("-")
    return f"{words[: longest - 7].rstrip('-')}-{secrets.token_hex(3)}"


def label_faults(filled: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for a creator or an application that cannot be the value of a label, which both become."""
    form = "use at most 63 letters, digits and '-_.', with a letter or digit at both ends"
    for key in ("creator", "name"):
        value = filled.get(key)
        if value is not None and not isinstance(value, dict | list) and not is_label_value(str(value)):
            yield Fault((key,), f"expected the value of a label, found {show(value)}", form)


class Names(Value, frozen=True):
    """How a job is called.

    Attributes:
        release: The job's own name.
        definition: The definition's.
        application: That of the definition, if the user has filled in none.
        creator: Who the job is for.
    """

    release: str
    definition: str
    application: str
    creator: str


def template_values(filled: Mapping[str, Any], system: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the values with which a template is filled in.

    Args:
        filled: What the user has filled in, without faults.
        system: The definition's `system_values`, which win.
        names: How the job is called.
    """
    named = {
        "release": names.release,
        "taskDef": names.definition,
        "application": str(filled.get("name") or names.application or names.definition),
        "creator": names.creator,
    }
    described = {"name": filled.get("name"), "description": filled.get("description")}
    endpoints = [_without_headers(item) for item in listing(filled.get("endpoints"))]
    datasets = [item for item in endpoints if mapping(item).get("type") == "dataset"]
    process = mapping(filled.get("process"))
    own = {
        "global": named,
        "configs": {
            "global": _json({**named, **described}),
            "dataset": _json({"endpoints": datasets}),
            "process": _json(process),
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


def _merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _without_headers(endpoint: Any) -> Any:
    if not isinstance(endpoint, dict):
        return endpoint
    return {key: value for key, value in endpoint.items() if key != "headers"}


def masked(filled: Mapping[str, Any], secret_keys: Collection[str] = ()) -> dict[str, Any]:
    """Return filled values as they may be shown: with *** in place of each header's value, and of each secret.

    Args:
        filled: What the user has filled in.
        secret_keys: The keys below `env` whose values are secrets.
    """
    copy = replaced_headers(filled, lambda _index, headers: dict.fromkeys(headers, MASK))
    if secret_keys and isinstance(copy.get("env"), dict):
        copy["env"] = {key: MASK if key in secret_keys else value for key, value in copy["env"].items()}
    return copy


def replaced_headers(filled: Mapping[str, Any], replace: Any) -> dict[str, Any]:
    """Return filled values in which the headers of each endpoint are what `replace(index, headers)` returns."""
    copy = dict(filled)
    if isinstance(copy.get("endpoints"), list):
        copy["endpoints"] = [
            {**item, "headers": replace(index, item["headers"])}
            if isinstance(item, dict) and isinstance(item.get("headers"), dict)
            else item
            for index, item in enumerate(copy["endpoints"])
        ]
    return copy


def dataset_headers(filled: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the endpoints of data that have headers, whole: what the Secret `<release>-endpoints` holds."""
    endpoints = map(mapping, listing(filled.get("endpoints")))
    return [item for item in endpoints if item.get("type") == "dataset" and item.get("headers")]
