"""Checks the sources of a spec: the files that pods fetch before their program starts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.fields import FetchedFile
    from packager.base.yamlio import Location
    from packager.modelspec.model import Spec

_FOLDERS = ("OUTPUT_DIR", "DATASET_DIR", "CHECKPOINT_DIR")
"""The variables of the folders that pods can write to before their program starts, if there are such folders."""

_SECRETS_OF_S3 = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

_LISTED = re.compile("hf://(datasets/)?[^/]+/[^/]+@[0-9a-f]{40}(/.*)?|oci://.*")
"""Sources whose address says which content they have: their files are listed under a commit or a digest."""

_SEVERAL = re.compile("hf://(datasets/)?[^/]+/[^/]+|oci://.*")
"""Sources that have several files."""


def check(spec: Spec) -> Iterator[Fault]:
    """Yield a fault for each source whose folder is not writable, whose secret is missing, or whose place is taken."""
    taken: set[str] = set()
    for index, source in enumerate(spec.sources):
        place = ("sources", index)
        if source.folder not in _folders(spec):
            message = f"{source.folder} is not a folder that the pods of this model can write to"
            hint = f"they can write to {' and '.join(_folders(spec))}"
            yield Fault((*place, "to"), message, hint, needs=((*place, "to"), ("environment",), ("dataset",)))
        if source.to == source.folder and not _SEVERAL.fullmatch(source.address):
            name = source.address.partition("?")[0].rpartition("/")[2] or "NAME"
            yield Fault((*place, "to"), "`from` is one file, and `to` does not name it", f"write {source.to}/{name}")
        if source.secret is not None and source.secret not in spec.secrets:
            yield Fault((*place, "secret"), f"{source.secret!r} is not one of `secrets`", "add it there")
        yield from _address(source, place)
        if source.to in taken:
            yield Fault((*place, "to"), f"another source has the place {source.to!r}", "use another path")
        taken.add(source.to)


def _folders(spec: Spec) -> list[str]:
    """Return those of `_FOLDERS` that the model has."""
    missing = {"DATASET_DIR": not spec.dataset, "CHECKPOINT_DIR": "CHECKPOINT_DIR" not in spec.environment}
    return [folder for folder in _FOLDERS if not missing.get(folder)]


def _address(source: FetchedFile, place: Location) -> Iterator[Fault]:
    """Yield a fault where the digest is missing or cannot be used, or the secret would be."""
    if source.secret is not None and source.address.startswith("http://"):
        yield Fault((*place, "from"), "a secret is only sent by https", "use https://…")
    if source.secret is not None and source.address.startswith("s3://"):
        keys = " and ".join(_SECRETS_OF_S3)
        yield Fault(
            (*place, "secret"), f"the secrets for S3 are {keys}", "leave `secret` out, and add these to `secrets`"
        )
    if source.sha256 is None and not _LISTED.fullmatch(source.address):
        kind = "a commit of 40 digits in `from`, or sha256" if source.address.startswith("hf://") else "sha256"
        yield Fault(place, f"the content of {source.address} may change", f"add {kind}")
    if source.sha256 is not None and _SEVERAL.fullmatch(source.address):
        yield Fault((*place, "sha256"), "a sha256 is that of one file, and `from` has several", "leave it out")
