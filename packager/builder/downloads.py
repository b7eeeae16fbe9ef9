"""Fetches the downloads of a spec into a cache, by their digests, and records digests in the spec."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packager.base import atomic, paths, web, workfolder, yamlio
from packager.base.errors import SpecError, ToolError, reason
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import replace
from packager.modelspec.files import SourceFile
from packager.modelspec.load import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.base.fields import Download
    from packager.base.process import Progress, Tell
    from packager.base.web import Progress as FileProgress
    from packager.modelspec.load import LoadedSpec
    from packager.modelspec.settings import Setting

_FOLDER = "downloads"


def fetched(download: Download, cache: Path, progress: FileProgress) -> tuple[SourceFile, str]:
    """Return a download as a file of the cache, and its digest; without one in the spec, it is fetched again."""
    folder = cache / _FOLDER
    try:
        paths.make_private(folder)
        digest = download.sha256
        kept = folder / f"{digest}"
        if digest is None or kept.is_symlink() or not kept.is_file() or web.digest_of(kept) != digest:
            digest = _fetch(download, folder, progress)
        file = folder / digest
        return SourceFile(download.path, file, file.stat().st_size, executable=False), digest
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None


def _fetch(download: Download, folder: Path, progress: FileProgress) -> str:
    """Put a download into the folder under its digest; after an error, its part stays for the next attempt."""
    part = folder / f"{download.sha256 or 'unknown'}.part"
    with part.open("ab") as held:
        if workfolder.lock(held.fileno()) is False:  # another process fetches it
            part = folder / f"{os.getpid()}.part"
        digest = web.download(download.url, part, download.sha256, limit=DEFAULT_LIMITS.size, progress=progress)
        part.replace(folder / digest)
    return digest


def with_downloads(  # noqa: PLR0913 - two of them say what the user sees
    loaded: LoadedSpec, settings: Sequence[Setting], cache: Path, *, record: bool, tell: Tell, progress: Progress
) -> LoadedSpec:
    """Return the spec with its downloads among its assets."""
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
    """Return the text of the spec with the digests added and no other change."""
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
