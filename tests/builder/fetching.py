"""Runs the script of packages that fetches files."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

from packager.builder.render import TEMPLATES

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = TEMPLATES[""] / "package/quickstart/common/FRAMEWORK/k8s/mlops/base/sources.sh"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fetch(
    folder: Path,
    source: str,
    *,
    to: str = "data",
    digest: str = "-",
    size: int = 1_000_000,
    login: str = "-",
    command: tuple[str, ...] = (),
    with_clients: bool = False,
    **variables: str,
) -> tuple[int, str]:
    """Run the script, with or without the clients of stores, and return its exit code and its errors."""
    if not with_clients:
        variables["PYTHONPATH"] = str(without_clients(folder))
    argv = ["sh", str(SCRIPT), source, f"{folder}/{to}", digest, str(size), login, "--", *command]
    # botocore must not look for the role of a virtual machine
    environment = {"PATH": os.environ["PATH"], "AWS_EC2_METADATA_DISABLED": "true", **variables}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def without_clients(folder: Path) -> Path:
    """Return a folder that has Python find none of the clients."""
    path = folder / "hidden"
    path.mkdir(parents=True, exist_ok=True)
    hide = 'import sys\nsys.modules.update(dict.fromkeys(("botocore", "huggingface_hub", "oras")))\n'
    (path / "sitecustomize.py").write_text(hide)
    return path


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of the files that were fetched."""
    data = folder / "data"
    paths = (path for path in data.rglob("*") if path.is_file() and not path.name.startswith(".mlpack-"))
    return {str(path.relative_to(data)): path.read_bytes() for path in paths}
