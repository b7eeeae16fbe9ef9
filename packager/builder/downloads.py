"""Fetches the downloads of a spec into a cache, by their digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import paths, web, yamlio
from packager.base.errors import SpecError, ToolError, reason
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import replace
from packager.modelspec.files import SourceFile

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.fields import Download
    from packager.base.process import Progress
    from packager.base.web import Progress as FileProgress
    from packager.modelspec.load import LoadedSpec

_FOLDER = "downloads"


def fetched(download: Download, cache: Path, progress: FileProgress) -> tuple[SourceFile, str]:
    """Return a download as a file of the cache, and its digest; without one in the spec, it is fetched again."""
    folder = cache / _FOLDER
    try:
        paths.make_private(folder)
        digest = download.sha256
        kept = folder / f"{digest}"
        if digest is None or kept.is_symlink() or not kept.is_file() or web.digest_of(kept) != digest:
            part = folder / f"{digest or 'unknown'}.part"  # after an error, it stays for the next attempt
            digest = web.download(download.url, part, digest, limit=DEFAULT_LIMITS.size, progress=progress)
            part.replace(folder / digest)
        file = folder / digest
        return SourceFile(download.path, file, file.stat().st_size, executable=False), digest
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None


def with_downloads(loaded: LoadedSpec, cache: Path, progress: Progress) -> LoadedSpec:
    """Return the spec with its downloads among its assets. Raises SpecError for those without a digest, with theirs."""
    document, _ = yamlio.load(loaded.text, str(loaded.path))

    def show(url: str, total: int) -> object:
        return progress(url, total, unit="bytes")

    files, problems = [], []
    for index, download in enumerate(loaded.spec.downloads):
        file, digest = fetched(download, cache, show)  # type: ignore[arg-type]
        files.append(file)
        if download.sha256 is None:
            hint = f"the file that is there now has `sha256: {digest}`"
            problems.append(document.problem(("downloads", index), "the key 'sha256' is missing", hint=hint))
    if problems:
        raise SpecError(f"{loaded.path}: a download has no digest", problems=problems)
    assets = tuple(sorted((*loaded.sources.assets, *files), key=lambda file: file.name))
    return replace(loaded, sources=replace(loaded.sources, assets=assets))
