"""Fetches the downloads of a spec into a cache, by their digests, and records digests in the spec."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from packager.base import atomic, paths, web, yamlio
from packager.base.errors import SpecError, ToolError, VerificationError, reason
from packager.base.limits import DEFAULT
from packager.base.values import replace
from packager.modelspec.files import SourceFile
from packager.modelspec.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.base.fields import Download
    from packager.base.runner import Progress, Tell
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
        if digest is None or not _is_whole(folder / digest, digest):
            with _part(folder, digest or "unknown") as part:
                digest = web.download(download.url, part, digest, limit=DEFAULT.size, progress=progress)
                part.replace(folder / digest)
        file = folder / digest
        return SourceFile(download.path, file, file.stat().st_size, executable=False), digest
    except OSError as error:
        raise ToolError(f"the cache {folder} cannot be used: {reason(error)}", hint="set XDG_CACHE_HOME") from None


def _is_whole(file: Path, digest: str) -> bool:
    """Return whether the cache has the file with this digest; a file with another digest is removed."""
    try:
        info = file.lstat()
    except FileNotFoundError:
        return False
    if stat.S_ISREG(info.st_mode) and info.st_uid == file.parent.stat().st_uid and web.digest_of(file) == digest:
        return True
    file.unlink()
    return False


@contextmanager
def _part(folder: Path, name: str) -> Iterator[Path]:
    """Yield a file that only this process writes to; after an error its content stays for the next attempt."""
    kept = folder / f"{name}.part"
    part = folder / f"{name}.{os.getpid()}.part"
    for path in (kept, *folder.glob(f"{name}.*.part")):
        pid = re.fullmatch(r".*\.([0-9]+)\.part", path.name)
        if pid is None or not _is_running(int(pid[1])):
            with suppress(FileNotFoundError):  # another process was faster
                path.rename(part)
                break
    if part.is_symlink() or (part.exists() and not part.is_file()):
        part.unlink()
    try:
        yield part
    except VerificationError:
        part.unlink(missing_ok=True)
        raise
    finally:
        with suppress(FileNotFoundError):
            part.rename(kept)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


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
