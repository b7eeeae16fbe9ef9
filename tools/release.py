"""Writes the files of a release: wheel, source archive, zipapp, SBOM, checksums and signatures: `make release`.

The same commit gives the same bytes: times are those of the commit, and signatures are deterministic.

Tests: test_release.py.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from packager import __version__
from packager.cli.asking import password_of
from packager.publish import signatures
from packager.publish.keys import signers
from tests import released

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.publish.keys import Signer

CHECKOUT = Path(__file__).resolve().parents[1]
PROJECT = "mlpack-kubernetes"
EXTRAS = ("sign",)
"""The extras that the zipapp contains."""

_LEFT_OUT = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")
"""Files of an installation that say how it was installed."""

_OLDEST_ZIP = 315532800  # 1980, before which a zip has no times

_START = '''\
"""Unpacks this file into the cache of its user, once, and runs mlpack from there."""

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile

NEEDED = {tag!r}


def unpacked():
    """Return the folder with the content of this file; it is complete, or does not exist."""
    archive = os.path.dirname(os.path.abspath(__file__))
    cache = os.environ.get("XDG_CACHE_HOME", "")
    cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
    with open(archive, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    parent = os.path.join(cache, "mlpack", "zipapp")
    folder = os.path.join(parent, digest)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    if os.stat(parent).st_uid != os.getuid() or os.stat(parent).st_mode & 0o022:
        sys.exit("error: others can write to " + parent)
    if not os.path.isdir(folder):
        work = tempfile.mkdtemp(dir=parent)
        try:
            with zipfile.ZipFile(archive) as content:
                content.extractall(work, [name for name in content.namelist() if name.startswith("site/")])
            os.rename(work, folder)
        except OSError:
            if not os.path.isdir(folder):  # else another process was first
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return os.path.join(folder, "site")


found = "cp%d%d" % sys.version_info[:2]
if found != NEEDED:
    sys.exit("error: this file is for Python " + NEEDED + ", and this is " + found)
sys.path[0] = unpacked()

from packager.__main__ import main

main()
'''


def release(destination: Path, epoch: int, signer: Signer | None) -> list[Path]:
    """Write the files of a release into a new folder, and return their paths.

    Args:
        destination: The folder; what is in it is replaced.
        epoch: The time of all files, in seconds since 1970.
        signer: Signs the checksums; None leaves them unsigned.
    """
    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(destination)]
    subprocess.run(
        command, check=True, cwd=CHECKOUT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (wheel,) = destination.glob("*.whl")
    installed = [importlib.metadata.distribution(name) for name in closure(PROJECT, EXTRAS)]
    dependencies = [one for one in installed if one.name != PROJECT]
    zipapp(destination / f"mlpack-{__version__}-{_tag()}-{_platform()}.pyz", wheel, dependencies, epoch)
    sbom = destination / f"mlpack-{__version__}.cdx.json"
    sbom.write_text(json.dumps(bill_of_materials(epoch), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    sums = destination / "SHA256SUMS"
    files = sorted(destination.iterdir())
    sums.write_text("".join(f"{_digest(path)}  {path.name}\n" for path in files), encoding="utf-8")
    if signer is not None:
        _sign(sums, signer)
    return sorted(destination.iterdir())


def closure(name: str, extras: Sequence[str]) -> list[str]:
    """Return the names of a distribution with these extras and of all that it needs here, in order."""
    found: dict[str, set[str]] = {}
    queue = [(name, extra) for extra in ("", *extras)]
    while queue:
        project, extra = queue.pop()
        if extra in found.setdefault(project, set()):
            continue
        found[project].add(extra)
        for text in importlib.metadata.requires(project) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                queue += [(_normal(needed.name), one) for one in ("", *needed.extras)]
    return sorted(found)


def zipapp(path: Path, wheel: Path, dependencies: Sequence[importlib.metadata.Distribution], epoch: int) -> None:
    """Write one file that Python runs, with mlpack and all that it needs.

    Args:
        path: The file.
        wheel: The wheel of mlpack.
        dependencies: The installed distributions that are copied into it.
        epoch: The time of its entries.
    """
    entries = {"__main__.py": _START.format(tag=_tag()).encode()}
    with zipfile.ZipFile(wheel) as archive:
        entries |= {f"site/{name}": archive.read(name) for name in archive.namelist()}
    for one in dependencies:
        for file in one.files or ():
            is_module = ".." not in file.parts and "__pycache__" not in file.parts and file.name not in _LEFT_OUT
            if is_module:
                entries[f"site/{file.as_posix()}"] = Path(str(one.locate_file(file))).read_bytes()
    moment = datetime.fromtimestamp(max(epoch, _OLDEST_ZIP), UTC).timetuple()[:6]
    with path.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w") as archive:
            for name in sorted(entries):
                entry = zipfile.ZipInfo(name, moment)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, entries[name])
    path.chmod(0o755)


def bill_of_materials(epoch: int) -> dict[str, Any]:
    """Return the parts of mlpack and of all its extras, as a document of CycloneDX 1.6."""
    extras = importlib.metadata.metadata(PROJECT).get_all("Provides-Extra") or []
    hashes = dict(_locked((CHECKOUT / "requirements-dev.lock").read_text(encoding="utf-8")))
    parts = [_component(name, hashes) for name in closure(PROJECT, extras) if name != PROJECT]
    top = {"type": "application", "name": "mlpack", "version": __version__, "licenses": [{"expression": "Apache-2.0"}]}
    content = json.dumps([top, parts], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": top},
        "components": parts,
    }


def _component(name: str, hashes: dict[str, list[str]]) -> dict[str, Any]:
    metadata = importlib.metadata.metadata(name)
    version = metadata["Version"]
    license_name = next((text for key in ("License-Expression", "License") for text in metadata.get_all(key) or ()), "")
    licenses = [{"license": {"name": license_name.splitlines()[0]}}] if license_name else []
    listed = [{"name": "sha256", "value": digest} for digest in hashes.get(name, [])]
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": licenses,
        "properties": listed,
    }


def _locked(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each package of a lock file with the digests of its files."""
    for entry in re.split(r"\n(?=\S)", text):
        if match := re.match(r"([A-Za-z0-9._-]+)==", entry):
            yield _normal(match[1]), sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))


def _sign(sums: Path, signer: Signer) -> None:
    """Write the signatures of the checksums: one for openssl, and the bundle that cosign reads."""
    content = sums.read_bytes()
    sums.with_name(f"{sums.name}.sig").write_bytes(signer.sign(content))
    payload = signatures.statement([(f"sha256:{hashlib.sha256(content).hexdigest()}", sums.name)])
    signed = signatures.bundle(payload, signer)
    sums.with_name(f"{sums.name}.sigstore.json").write_bytes(signed + b"\n")


def _tag() -> str:
    return "cp{}{}".format(*sys.version_info[:2])


def _platform() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def commit_time() -> int:
    """Return the time of the last commit, in seconds since 1970."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True, cwd=CHECKOUT
    )
    return int(done.stdout)


def main() -> None:
    """Write the release of this checkout."""
    parser = argparse.ArgumentParser(description="Write the files of a release.")
    parser.add_argument("-d", "--destination", type=Path, default=CHECKOUT / "build/release")
    parser.add_argument("--sign-key", type=Path, help="the private key that signs the checksums")
    arguments = parser.parse_args()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or commit_time())
    keys = [arguments.sign_key] if arguments.sign_key else []
    signer = next(iter(signers(keys, password_of, lambda text: print(text, file=sys.stderr))), None)
    if signer is not None and (missing := released.differing(released.RELEASES / __version__)):
        folder = f"tests/releases/{__version__}"
        print(f"error: {folder} does not have this version's {', '.join(missing)}", file=sys.stderr)
        if (released.RELEASES / __version__).is_dir():
            sys.exit(
                f"hint: {__version__} is kept as another commit built it: name the next version, as docs/policy.md says"
            )
        sys.exit("hint: `make fixtures` writes them; commit them, then release")
    for path in release(arguments.destination, epoch, signer):
        print(path)
    if signer is None:
        print("not signed: KEY=FILE signs the checksums", file=sys.stderr)


if __name__ == "__main__":
    main()
