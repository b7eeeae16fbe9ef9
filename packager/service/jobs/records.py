"""Restores the filled values and objects of a job, with stored secrets. Tests: service/api/test_jobs.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.kubernetes.manifest import mapping
from packager.service.registry import template_values
from packager.service.registry.packages.content import ENV
from packager.service.registry.packages.env import as_text
from packager.service.registry.packages.filling import SECRETS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.sealing import Sealer
    from packager.service.store.rows import StoredJob

ENDPOINTS = "dataset.json"
"""The key in the Secret `<release>-endpoints`."""


def headers(filled: Mapping[str, Json]) -> dict[str, Json]:
    """Return the headers of each endpoint, by its index."""
    endpoints = filled.get("endpoints")
    return {
        str(index): item["headers"]
        for index, item in enumerate(endpoints if isinstance(endpoints, list) else ())
        if isinstance(item, dict) and isinstance(item.get("headers"), dict)
    }


def secrets(filled: Mapping[str, Json], secret_keys: Collection[str]) -> dict[str, Json]:
    """Return the headers and the package secrets in filled values, which are stored encrypted.

    Args:
        filled: The filled values.
        secret_keys: The keys below `env` whose values are secrets.
    """
    env = mapping(filled.get(ENV))
    own = {key: env[key] for key in secret_keys if env.get(key) is not None}
    return {**headers(filled), **({ENV: own} if own else {})}


def filled_values(job: StoredJob, sealer: Sealer) -> dict[str, Json]:
    """Return the filled values of a job with headers and secrets. Raises ToolError if they cannot be decrypted."""
    sealed = sealer.open(job.secrets, job.release)
    filled = template_values.replaced_headers(job.values, lambda index, _: sealed[str(index)])
    return {**filled, ENV: {**mapping(filled[ENV]), **mapping(sealed[ENV])}} if ENV in sealed else filled


def endpoint_secret(filled: Mapping[str, Json]) -> str | None:
    """Return the content of the Secret `<release>-endpoints`; None if no dataset endpoint has headers."""
    endpoints = template_values.dataset_headers(filled)
    return jsonio.compact(endpoints) if endpoints else None


def objects(job: StoredJob, sealer: Sealer) -> list[Object]:
    """Return the objects of a job for the cluster, the workload last. Raises ToolError if decryption fails."""
    items = job.objects
    for item in items:
        if item["kind"] == "Secret" and item["metadata"]["name"] == f"{job.release}-endpoints":
            item["stringData"] = {ENDPOINTS: endpoint_secret(filled_values(job, sealer))}
        if item["kind"] == "Secret" and item["metadata"]["name"] == f"{job.release}-{SECRETS}":
            item["stringData"] = secret_texts(mapping(sealer.open(job.secrets, job.release).get(ENV)))
    return items


def secret_texts(own: Mapping[str, Json]) -> dict[str, str]:
    """Return the content of the Secret `<release>-package-secrets`: each filled secret, as text."""
    return {key: as_text(value) for key, value in own.items()}


def stored(items: Sequence[Object], release: str) -> list[Object]:
    """Return objects for the database, without the headers of endpoints and without package secrets."""
    own = (f"{release}-endpoints", f"{release}-{SECRETS}")
    return [
        {**item, "stringData": {}} if item["kind"] == "Secret" and item["metadata"]["name"] in own else item
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
