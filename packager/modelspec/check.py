"""Checks the rules of a spec that types cannot express, and limits of Kubernetes. Tests: modelspec/test_messages.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.fields import Resources, text
from packager.base.paths import DEFAULT_LIMITS
from packager.base.problems import Fault, similar, without_repetitions
from packager.base.values import replace
from packager.kubernetes.containers import resource_faults
from packager.modelspec import code, environments, programs
from packager.package import archive
from packager.package.layout import WORKSPACE
from packager.package.path_checks import ContentError, Contents, composed, normalized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.files import SourceFile, SpecFiles
    from packager.modelspec.model import Image, Spec
    from packager.workloads.overlay import PrebuiltImage

_FOLDERS = ("OUTPUT_DIR", "DATASET_DIR", "CHECKPOINT_DIR")
"""The variables of the folders that pods can write to before their program starts, if there are such folders."""

_SECRETS_OF_S3 = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

_LISTED = re.compile("hf://(datasets/)?[^/]+/[^/]+@[0-9a-f]{40}(/.*)?|oci://.*")
"""Sources whose address says which content they have: their files are listed under a commit or a digest."""

_SEVERAL = re.compile("hf://(datasets/)?[^/]+/[^/]+|oci://.*")
"""Sources that have several files."""


def check(spec: Spec, sources: SpecFiles) -> list[Fault]:
    """Return every fault of a spec that has valid types and the files `sources`, each once."""
    return without_repetitions(_all(spec, sources))


def _all(spec: Spec, sources: SpecFiles) -> Iterator[Fault]:
    yield from _duplicates(spec.sequence, ("sequence",))
    yield from _images(spec)
    yield from _variants(spec)
    yield from _names(spec)
    yield from _workspace(spec)
    yield from code.check(spec, sources)
    yield from _fetched(spec)
    longest = max((spec.package_name(variant) for variant in spec.variants), key=len, default="")
    yield from _assets(spec, sources.assets, longest)
    yield from environments.check(spec)
    yield from programs.check(spec)
    for name, overlay in spec.overlays.items():
        place = ("overlays", name)
        for fault in overlay.faults():
            yield replace(fault.below(place), needs=(place,))
        for location, resources_of_one in overlay.containers():
            yield from _resources(resources_of_one, (*place, *location))


def _duplicates(names: Sequence[str], place: Location) -> Iterator[Fault]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Fault((*place, index), f"duplicate entry {name!r}", "remove one of them")


def _images(spec: Spec) -> Iterator[Fault]:
    images: list[tuple[Location, Image | PrebuiltImage]] = [(("image",), spec.image)]
    images += [(("overlays", name, "image"), overlay.image) for name, overlay in spec.overlays.items() if overlay.image]
    images += [(("variants", index, "image"), one.image) for index, one in enumerate(spec.variants) if one.image]
    for place, image in images:
        if image.tag is None and image.digest is None:
            yield Fault(place, "the key 'tag' is missing (the image's tag; quote one that looks like a number)")
    if spec.image.digest is not None and spec.image.dockerfile is not None:
        message = "an image that is built from `dockerfile` has another digest each time"
        yield Fault(("image", "digest"), message, "remove one of them", at_key=True)


def _workspace(spec: Spec) -> Iterator[Fault]:
    """The claim of the workspace, which overlays must mount, and the overlay that creates it."""
    if spec.workspace is None:
        return
    mounted = sorted({claim for overlay in spec.overlays.values() for claim in overlay.claim_names})
    if spec.workspace not in mounted:
        hint = similar(spec.workspace, mounted) or "add it to `claims` of an overlay, or remove it here"
        needs = (("overlays",), *(("overlays", name) for name in spec.overlays))
        yield Fault(("workspace",), f"no overlay mounts the claim {spec.workspace!r}", hint, needs=needs)
    if WORKSPACE in spec.overlays:
        message = f"the overlay {WORKSPACE!r} is the one that creates the claim of `workspace`"
        yield Fault(("overlays", WORKSPACE), message, "give it another name", at_key=True)


def _variants(spec: Spec) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, variant in enumerate(spec.variants):
        place = ("variants", index)
        package = spec.package_name(variant)
        first = seen.setdefault(package, index)
        if first != index:
            message = f"another variant also has the package name {package!r}"
            needs = (("name",), ("package",), ("variants", first))
            yield Fault(place, message, "use a different precision or mode", needs=needs)
        yield from _resources(variant.resources, (*place, "resources"))
        yield from _duplicates(variant.overlays or (), (*place, "overlays"))
        for position, name in enumerate(variant.overlays or ()):
            if name not in spec.overlays:
                hint = similar(name, list(spec.overlays)) or f"the overlays are: {', '.join(spec.overlays)}"
                overlay = (*place, "overlays", position)
                yield Fault(overlay, f"overlay {name!r} not found", hint, needs=(("overlays",),))


def _names(spec: Spec) -> Iterator[Fault]:
    """Names that Kubernetes would refuse: a pod's and a Job's name is a DNS label of at most 63 characters."""
    for index, name in spec.pairs():
        longest = spec.overlays[name].longest_name(f"{spec.package_name(spec.variants[index])}-{name}")
        if len(longest) > 63:
            message = f"the overlay {name!r} makes the name {longest!r}: {len(longest)} characters, the limit is 63"
            fix = "shorten `package`, the overlay's name, precision or mode"
            needs = (("name",), ("package",), ("overlays", name))
            yield Fault(("variants", index), message, fix, needs=needs)


def _assets(spec: Spec, files: Sequence[SourceFile], package: str) -> Iterator[Fault]:
    """Check names that some systems cannot store or distinguish, or no archive of `package`, and the size.

    The paths of downloads are checked if the assets have no fault.
    """
    hints = [None if file.size >= DEFAULT_LIMITS.size else "rename it" for file in files]
    entries = [(file.place, file.name, file.size, hint) for file, hint in zip(files, hints, strict=True)]
    entries += [
        (("downloads", index, "path"), download.path, 0, "use another path")
        for index, download in enumerate(spec.downloads)
    ]
    contents, is_faulty = Contents(), False
    for place, name, size, hint in entries:
        if is_faulty and place[0] == "downloads":
            return
        try:
            path = composed(contents.add_file(f"assets/{name}", size))
            archive.header(normalized(f"{package}/{path}"), size)
        except ContentError as error:
            yield Fault(place, str(error), hint)
            is_faulty |= place[0] == "assets"


def _resources(container_resources: Resources, place: Location) -> Iterator[Fault]:
    parts = [
        {name: text(value) for name, value in part.items()}
        for part in (container_resources.requests, container_resources.limits)
    ]
    yield from (fault.below(place) for fault in resource_faults(*parts))


def _fetched(spec: Spec) -> Iterator[Fault]:
    """Yield a fault for each source that cannot work."""
    for index, source in enumerate(spec.sources):
        place = ("sources", index)
        if source.folder not in _folders(spec):
            message = f"{source.folder} is not a folder that the pods of this model can write to"
            hint = f"they can write to {' and '.join(_folders(spec))}"
            yield Fault((*place, "to"), message, hint, needs=(("dataset",), ("environment",)))
        if source.to == source.folder and not _SEVERAL.fullmatch(source.address):
            name = source.address.partition("?")[0].rpartition("/")[2] or "NAME"
            yield Fault((*place, "to"), "`from` is one file, and `to` does not name it", f"write {source.to}/{name}")
        if source.secret is not None and source.secret not in spec.secrets:
            needs = (("secrets", source.secret),)
            yield Fault((*place, "secret"), f"{source.secret!r} is not one of `secrets`", "add it there", needs=needs)
        if source.secret is not None and source.address.startswith("http://"):
            yield Fault((*place, "from"), "a secret is only sent by https", "use https://…")
        if source.secret is not None and source.address.startswith("s3://"):
            message, hint = f"the secrets for S3 are {_SECRETS_OF_S3}", "leave `secret` out, and add these to `secrets`"
            yield Fault((*place, "secret"), message, hint)
        if source.sha256 is None and not _LISTED.fullmatch(source.address):
            kind = "a commit of 40 digits in `from`, or sha256" if source.address.startswith("hf://") else "sha256"
            yield Fault(place, f"the content of {source.address} may change", f"add {kind}")


def _folders(spec: Spec) -> list[str]:
    """Return those of `_FOLDERS` that the model has."""
    missing = {"DATASET_DIR": not spec.dataset, "CHECKPOINT_DIR": "CHECKPOINT_DIR" not in spec.environment}
    return [folder for folder in _FOLDERS if not missing.get(folder)]
