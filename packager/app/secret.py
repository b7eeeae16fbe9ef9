"""Creates the Secret from which the pods of a package read secret values. Tests: cli/test_secret.py."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.paths import argument
from packager.base.problems import Problem
from packager.cluster import secret as stage
from packager.configure import settings
from packager.package import declared
from packager.package.opened import opened
from packager.package.options import SECRETS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.kubernetes.kubectl.client import Kubectl

MAX_BYTES = 1 << 20
"""The largest Secret that Kubernetes accepts (pkg/apis/core/validation: MaxSecretSize)."""


@dataclass(frozen=True, slots=True)
class NeededSecret:
    """The Secret that a package reads.

    Attributes:
        name: The name of the Secret, which SECRET in `site.env` sets.
        keys: The keys, each with a description.
    """

    name: str
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreatedSecret:
    """A Secret that was created, or would be.

    Attributes:
        name: The name of the Secret.
        namespace: The namespace of the Secret.
        keys: The keys of the Secret.
        dry_run: Whether nothing was created.
    """

    name: str
    namespace: str
    keys: tuple[str, ...]
    dry_run: bool

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints; it contains no secret values."""
        return {
            "secret": self.name,
            "namespace": self.namespace,
            "keys": list(self.keys),
            "dryRun": self.dry_run,
        }


def needed(path: Path) -> NeededSecret:
    """Return the Secret that the package at `path` reads.

    Raises:
        UsageError: There is no such package, it has no secrets, or SECRET in its `site.env` is not a valid name.
    """
    with opened(path) as package:
        keys = declared.secrets(package)
        if not keys:
            raise UsageError(f"{path} has no secrets", hint="a spec lists them under `secrets`")
        files = settings.Files(package)
        (key,) = SECRETS.keys
        for site in settings.site_files(package):
            for line in envfile.lines(files.read(site)):
                if line.key == key.name:
                    if complaint := key.complaint(line.value):
                        raise UsageError(f"{package.shown(site)}:{line.number}: {key.name}: {complaint}")
                    return NeededSecret(line.value, keys)
        hint = shlex.join(["mlpack", "configure", argument(path), "--set", f"{key.name}=NAME"])
        raise UsageError(f"{path} does not say which Secret it reads", hint=hint)


def values(text: bytes, name: str, secret: NeededSecret) -> dict[str, str]:
    """Return the values in an env file, by key. No message repeats text of the file.

    Args:
        text: The content of the file.
        name: The name of the file in messages.
        secret: The Secret that gets the values.

    Raises:
        UsageError: A line is not `KEY=value`, or has no key of the Secret; or a key of the Secret has no value.
    """
    problems: list[Problem] = []
    values_by_key: dict[str, str] = {}
    if len(text) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES >> 20} MiB, the limit of a Secret")
    rows = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in envfile.lines(text):
        message = _line_complaint(line, secret) if b"=" in rows[line.number - 1] else "expected KEY=value"
        if line.key in values_by_key:
            message = f"{line.key} is set twice"
        if message:
            problems.append(Problem(name, line.number, 1, message))
        else:
            values_by_key[line.key] = line.value
    if not problems and (missing := [key for key in secret.keys if key not in values_by_key]):
        problems.append(Problem(name, 0, 0, f"there is no line for {', '.join(missing)}"))
    if problems:
        raise UsageError(f"{name} does not contain the values; nothing was created", problems=problems)
    return values_by_key


def _line_complaint(line: envfile.Line, secret: NeededSecret) -> str | None:
    if line.key not in secret.keys:
        return f"expected a key of the package's secrets: {', '.join(secret.keys)}"
    if envfile.is_quoted(line.value):
        return f"the quotes would be part of the value of {line.key}: remove them"
    complaint = complaint_about(line.value)
    return f"{line.key}: {complaint}" if complaint else None


def complaint_about(value: str) -> str | None:
    """Return why `value` cannot be the value of an environment variable, without repeating it; None if it can."""
    if not value:
        return "the value is empty"
    if "\0" in value or "\ufffd" in value:
        return "the value is not text"
    if value != value.strip():
        return "the value starts or ends with spaces, which would be part of it"
    return None if len(value.encode()) <= MAX_BYTES else "the value is larger than 1 MiB"


def create(
    kubectl: Kubectl, secret: NeededSecret, secret_values: Mapping[str, str], *, force: bool, dry_run: str | None
) -> CreatedSecret:
    """Create the Secret, or validate it in a dry run.

    Args:
        kubectl: The client of the cluster.
        secret: The name and keys of the Secret.
        secret_values: The values by key; a dry run does not need them.
        force: Whether the keys of an existing Secret are replaced.
        dry_run: "client" asks no cluster, "server" asks the cluster; None creates the Secret.

    Raises:
        ClusterError: The Secret already exists, or the cluster rejects it.
    """
    if dry_run == "client":
        namespace = kubectl.namespace or "default"
    else:
        namespace = kubectl.default_namespace()
        placeholders = dict.fromkeys(secret.keys, "dry-run")
        stage.create(kubectl, secret.name, secret_values or placeholders, force=force, dry_run=dry_run is not None)
    return CreatedSecret(secret.name, namespace, tuple(secret.keys), dry_run is not None)
