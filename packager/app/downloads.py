"""Fetches the downloads of a spec for a build, and records their digests in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packager.base import atomic, yamlio
from packager.base.errors import SpecError
from packager.base.values import replace
from packager.builder.downloads import fetched
from packager.modelspec.load import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.base.progress import Progress, Tell
    from packager.modelspec.load import LoadedSpec
    from packager.modelspec.settings import Setting


def with_downloads(  # noqa: PLR0913 - two of them say what the user sees
    loaded: LoadedSpec, settings: Sequence[Setting], cache: Path, *, record: bool, tell: Tell, progress: Progress
) -> LoadedSpec:
    """Return the spec with its downloads among its assets.

    Args:
        loaded: The spec.
        settings: The changes of `--set` to the spec.
        cache: The folder of mlpack's caches.
        record: Whether digests that the spec lacks are added to its file.
        tell: Receives a message about each added digest.
        progress: Shows the progress of a download.

    Raises:
        SpecError: A download has no digest, or its digest cannot be added to the file.
        ToolError: A download could not be fetched.
        VerificationError: A download has another digest.
    """
    downloads = loaded.spec.downloads
    unknown = [index for index, download in enumerate(downloads) if download.sha256 is None]
    document, _ = yamlio.load(loaded.text, str(loaded.path))
    if unknown and not record:
        message, hint = "the key 'sha256' is missing", "`mlpack build --record` adds the digest that it has seen"
        problems = [document.problem(("downloads", index), message, hint=hint) for index in unknown]
        raise SpecError(f"{loaded.path}: a download has no digest", problems=problems)

    def show(url: str, total: int) -> object:
        return progress(url, total, unit="bytes")

    files, digests = [], {}
    for index, download in enumerate(downloads):
        file, digest = fetched(download, cache, show)  # type: ignore[arg-type]
        files.append(file)
        if index in unknown:
            digests[index] = digest
    if digests:
        text = _recorded(document, loaded, digests)
        path = loaded.path.resolve()
        mode = path.stat().st_mode & 0o777
        with atomic.file(path) as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
        for index, digest in digests.items():
            tell(f"{loaded.path}: sha256 {digest} recorded for {downloads[index].url}")
        loaded = load(loaded.path, settings, may_mount=bool(loaded.too_large))
    assets = tuple(sorted((*loaded.sources.assets, *files), key=lambda file: file.name))
    return replace(loaded, sources=replace(loaded.sources, assets=assets))


def _recorded(document: yamlio.Document, loaded: LoadedSpec, digests: Mapping[int, str]) -> bytes:
    """Return the text of the spec with the digests added and no other change.

    Raises:
        SpecError: The form of the spec does not allow adding digests.
    """
    source = loaded.text.decode("utf-8-sig")
    splices = []
    try:
        for index, digest in digests.items():
            entry = document.span(("downloads", index))
            key = document.span(("downloads", index, "url"), at_key=True)
            url = document.span(("downloads", index, "url"))
            if source[entry.start : entry.start + 1] == "{":
                splices.append((url.end, url.end, f", sha256: {digest}"))
            else:
                end = source.find("\n", url.end)
                end = len(source) if end < 0 else end - (source[end - 1] == "\r")
                line = "\r\n" if source[end : end + 2] == "\r\n" else "\n"
                splices.append((end, end, f"{line}{' ' * key.column}sha256: {digest}"))
    except KeyError:  # set on the command line
        splices = []
    text = yamlio.spliced(loaded.text, splices)
    edited, problems = yamlio.load(text, str(loaded.path))
    items = [dict(item) for item in document.data.get("downloads") or ()]
    for index, digest in digests.items():
        if index < len(items):
            items[index]["sha256"] = digest
    if problems or edited.data != {**document.data, "downloads": items}:
        listed = ", ".join(digests.values())
        raise SpecError(f"{loaded.path}: the digests could not be added", hint=f"add them yourself: sha256: {listed}")
    return text
