"""Restores the filled values and objects of a job, with stored secrets. Tests: service/api/test_jobs.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.kubernetes.manifest import mapping
from packager.service.registry import template_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.sealing import Sealer
    from packager.service.store.models import StoredJob

ENDPOINTS = "dataset.json"
"""The key in the Secret `<release>-endpoints`."""

SECRETS = "secrets"
"""The suffix of the Secret with the filled secrets, and their key among the sealed values."""


def secrets(filled: Mapping[str, Json], places: Iterable[Sequence[str]]) -> dict[str, Json]:
    """Return the headers, by the index of their endpoint, and the secrets in filled values, to encrypt."""
    endpoints = filled.get("endpoints")
    headers = {
        str(index): item["headers"]
        for index, item in enumerate(endpoints if isinstance(endpoints, list) else ())
        if isinstance(item, dict) and isinstance(item.get("headers"), dict)
    }
    own: dict[str, Any] = {".".join(place): template_values.value_at(filled, place) for place in places}
    own = {place: value for place, value in own.items() if value is not None}
    return {**headers, **({SECRETS: own} if own else {})}


def filled_values(job: StoredJob, sealer: Sealer) -> dict[str, Json]:
    """Return the filled values of a job with headers and secrets. Raises ToolError if they cannot be decrypted."""
    sealed = sealer.open(job.secrets, job.release)
    filled = template_values.replaced_headers(job.values, lambda index, _: sealed[str(index)])
    for place, value in mapping(sealed.get(SECRETS)).items():
        filled = template_values.put(filled, place.split("."), value)
    return filled


def secret_contents(filled: Mapping[str, Json], sealed: Mapping[str, Json]) -> dict[str, dict[str, str]]:
    """Return the content of each Secret that the service makes for a job, by its suffix."""
    contents: dict[str, dict[str, str]] = {}
    if endpoints := template_values.dataset_headers(filled):
        contents["endpoints"] = {ENDPOINTS: jsonio.compact(endpoints)}
    if own := mapping(sealed.get(SECRETS)):
        contents[SECRETS] = {place: str(value) for place, value in own.items()}
    return contents


def objects(job: StoredJob, sealer: Sealer) -> list[Object]:
    """Return the objects of a job for the cluster, the workload last. Raises ToolError if decryption fails."""
    items = job.objects
    if not any(item["kind"] == "Secret" for item in items):
        return items
    contents = secret_contents(filled_values(job, sealer), sealer.open(job.secrets, job.release))
    own = {f"{job.release}-{role}": content for role, content in contents.items()}
    return [
        {**item, "stringData": own[item["metadata"]["name"]]}
        if item["kind"] == "Secret" and item["metadata"]["name"] in own
        else item
        for item in items
    ]


def redacted(items: Sequence[Object]) -> list[Object]:
    """Return objects for callers, with *** in place of each value of a Secret."""
    return [
        {
            key: dict.fromkeys(value, template_values.MASK)
            if key in ("data", "stringData") and isinstance(value, dict)
            else value
            for key, value in item.items()
        }
        if item["kind"] == "Secret"
        else item
        for item in items
    ]
