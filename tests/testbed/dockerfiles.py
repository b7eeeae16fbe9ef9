"""Builds images from Dockerfiles with buildah, limits their size, and caches them under a digest of their inputs."""

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.testbed import bases, packages
from tests.testbed.errors import ClusterError, ToolError
from tests.testbed.images import BUILT
from tests.testbed.places import CACHE, only_one
from tests.testbed.process import bound, run
from tests.testbed.progress import step

_IMAGES = CACHE / "images"

_MOST_BYTES = 1536 << 20
"""The largest size of an image's files: 1.5 GiB."""

_UNSEALED = "sealing memfd"
"""The message of a rare failure after which a build is repeated once. Buildah executes a copy of itself in memory, and
cannot seal the copy while the kernel moves its pages (EBUSY, memfd_wait_for_pins in mm/memfd.c)."""

_PIP_CONFIGURATION = "/etc/pip.conf"
_CERTIFICATES = "/run/certificates-of-the-machine.crt"
"""The path of the certificates in a build; /etc/ssl/certs would conflict with the package ca-certificates."""


def build(folder: Path) -> Path:
    """Build a folder's Dockerfile, and return the archive of the image. Raises ClusterError if it is too large.

    The cache maps the digest of a folder to its image, and an image to its archive: after a change of a file that no
    instruction copies, only buildah's cached layers are read.
    """
    dockerfile = folder / "Dockerfile"
    if not dockerfile.is_file():
        raise ToolError(f"there is no {dockerfile}")
    pointer = _IMAGES / "known" / f"{_digest(folder)}.tar"
    if not pointer.exists():
        packages.install(packages.IMAGES)
        with only_one(_IMAGES):
            _forget_interrupted_builds()
            for suite in bases.used_by(dockerfile.read_text()):
                base = bases.archive_of(suite)
                _buildah("pull", "--quiet", f"docker-archive:{base}")
            with step(f"image of {folder}", duration="minutes"):
                archive = _archive(_bud(folder))
            _point(pointer, archive)
    return pointer.resolve()


def _digest(folder: Path) -> str:
    digest = hashlib.sha256(bases.RECIPE.encode())
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(folder)} {file.stat().st_mode & 0o111:o} {content}\n".encode())
    return digest.hexdigest()[:24]


def _forget_interrupted_builds() -> None:
    """Remove the containers and the records of mounts of killed builds."""
    shutil.rmtree(_IMAGES / "storage-run", ignore_errors=True)
    _buildah("rm", "--all")


def _buildah(*arguments: str | Path) -> str:
    # A separate storage. The mounts that buildah leaves behind end with the command.
    storage = [f"--root={_IMAGES / 'storage'}", f"--runroot={_IMAGES / 'storage-run'}", "--storage-driver=overlay"]
    command = bound("buildah", *storage, *arguments)
    for _ in range(2):
        try:
            return run(command)
        except ToolError as error:
            if _UNSEALED not in str(error):
                raise
    return run(command)


def _bud(folder: Path) -> str:
    """Build the image, and return its id."""
    with _way_to_packages() as volumes:
        # With layers kept, a change at a Dockerfile's end does not wait for its beginning again. Isolation by
        # chroot asks for nothing that a root without all privileges may lack.
        options = ["--layers", "--isolation=chroot", "--pull=never", *volumes]
        return _buildah("bud", "--quiet", *options, folder).split()[-1]


def _archive(image: str) -> Path:
    """Write an image as an OCI archive, without the empty files on which a build's volumes were mounted."""
    archive = _IMAGES / "archives" / f"{image[:24]}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        unfinished, tag = archive.with_suffix(".unfinished"), f"{BUILT}:{archive.stem}"
        unfinished.unlink(missing_ok=True)
        container = _buildah("from", "--pull=never", image).strip()
        in_container = ["run", "--isolation=chroot", "--user=0:0", container, "--"]
        size = int(_buildah(*in_container, "du", "--summarize", "--bytes", "--one-file-system", "/").split()[0])
        if size > _MOST_BYTES:
            raise ClusterError(f"the image has {size >> 20} MiB, more than {_MOST_BYTES >> 20}: install less in it")
        mounted = ["(", "-path", _PIP_CONFIGURATION, "-o", "-path", _CERTIFICATES, ")"]
        delete = ["find", "/etc", "/run", "-maxdepth", "1", *mounted, "-empty", "-delete"]
        _buildah(*in_container, *delete)
        _buildah("commit", "--quiet", "--rm", container, tag)
        # Takes half the time of gzip's default level, for the same size.
        compression = ["--compression-format=zstd", "--compression-level=1"]
        _buildah("push", "--quiet", *compression, tag, f"oci-archive:{unfinished}:{archive.stem}")
        unfinished.rename(archive)
    return archive


def _point(known: Path, archive: Path) -> None:
    known.parent.mkdir(parents=True, exist_ok=True)
    pointer = known.with_suffix(".unfinished")
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(Path("..", archive.parent.name, archive.name))
    pointer.rename(known)


@contextmanager
def _way_to_packages() -> Iterator[list[str]]:
    """Give buildah arguments that pass this machine's certificates and package index to `pip` in a build.

    The files are mounted, so no image contains them.
    """
    configuration = _IMAGES / "pip.conf"
    configuration.touch(mode=0o600)
    settings = ["[global]", *_pip_settings()]
    volumes = [f"--volume={configuration}:{_PIP_CONFIGURATION}:ro"]
    certificates = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
    if certificates.exists():
        settings.append(f"cert = {_CERTIFICATES}")
        volumes.append(f"--volume={certificates.resolve()}:{_CERTIFICATES}:ro")
    configuration.write_text("\n".join(settings) + "\n")
    try:
        yield volumes
    finally:
        configuration.unlink()


def _pip_settings() -> Iterator[str]:
    with suppress(ToolError):  # an environment without pip has no settings of pip
        for line in run([sys.executable, "-m", "pip", "config", "list"]).splitlines():
            key, _, value = line.partition("=")
            name = key.rpartition(".")[2]
            if name in {"index-url", "extra-index-url", "trusted-host"}:
                yield f"{name} = " + value.strip("'")
