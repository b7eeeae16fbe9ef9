"""Defines the paths in a package.

Paths are below the package's root, with `/`.
"""

from __future__ import annotations

import posixpath
import re

from packager.base.names import LETTER_FIRST
from packager.package.path_checks import DOCKERIGNORE

INVENTORY = "manifest.json"
"""The file with the digests of all files, and with the sealed lines of the editable ones."""

SPEC = "spec.yaml"
"""The spec that the package was built from."""

QUICKSTART = "quickstart"
"""The folder of all that kubectl renders."""

SCRIPTS = f"{QUICKSTART}/scripts"
"""The code that runs."""

OVERLAYS = f"{QUICKSTART}/k8s/mlops"
"""The folder that holds one folder for each overlay."""

MAX_OVERLAYS = 100
"""The most overlays of a package: kubectl renders each, and no package that people run has more."""

COMMON = f"{QUICKSTART}/common/*/k8s/mlops"
"""The folders of components that overlays share, as a pattern: one per component, in the framework's folder."""

KUSTOMIZATION = "kustomization.yaml"

KUSTOMIZATIONS = (KUSTOMIZATION, "kustomization.yml", "Kustomization")
"""The file names of a kustomization (kustomize, api/konfig: RecognizedKustomizationFileNames)."""

ENV = "mlops.env"
"""The values that a person edits, in the folder of each overlay."""

WIRING = "wiring.yaml"
"""The fields that values of `mlops.env` are filled into, in the folder of each overlay; users need not read it."""

WORKSPACE = "workspace"
"""The overlay that only creates a claim, in a package whose inventory names that claim."""

SITE = "site"
"""The folder of the options' values, beside the folders of the options."""

ADDED = f"{QUICKSTART}/{SITE}"
"""The folder of the components that a site has added to a package: one folder each."""

PLACEMENT = "placement.yaml"
"""The values of the option `placement`, in its folder; up to 0.2.0 in the folder `site`."""

PATCH = "patch.yaml"
"""The end of the names of patches in an overlay's folder."""


ASSETS = "assets"
"""The folder of files that pods read from storage."""

_FILES = frozenset((INVENTORY, SPEC, "README.md", "DEVOPS.md", "Dockerfile", DOCKERIGNORE))


def is_part(path: str) -> bool:
    """Return whether a package may have a file at `path`; the content of its folders depends on the spec."""
    return path in _FILES or path.startswith((f"{QUICKSTART}/", f"{ASSETS}/"))


def overlay(name: str) -> str:
    """Return the folder of an overlay."""
    return f"{OVERLAYS}/{name}"


def env(name: str) -> str:
    """Return the path of an overlay's mlops.env."""
    return f"{overlay(name)}/{ENV}"


def kustomization(name: str) -> str:
    """Return the path of an overlay's kustomization."""
    return f"{overlay(name)}/{KUSTOMIZATION}"


def overlay_of(path: str) -> str | None:
    """Return the overlay whose kustomization is at `path`; None if it is not a kustomization of an overlay."""
    folder, _, file = path.rpartition("/")
    parent, _, name = folder.rpartition("/")
    return name if parent == OVERLAYS and file == KUSTOMIZATION and name else None


def common(framework: str) -> str:
    """Return the folder of the components that the overlays share."""
    return COMMON.replace("*", framework)


def is_common(folder: str) -> bool:
    """Return whether a folder contains the components of some framework that overlays share."""
    steps = folder.split("/")
    return len(steps) == 5 and folder == common(steps[2])


def placement(common: str) -> str:
    """Return the path of the values of the option `placement`, below the folder that overlays share."""
    return f"{common}/placement/{PLACEMENT}"


def is_placement(path: str) -> bool:
    """Return whether `path` is that of the values of the option `placement`, in a package of any version."""
    return component(path) in ((SITE, PLACEMENT), ("placement", PLACEMENT))


def site_env(common: str) -> str:
    """Return the path of the options' values, below the folder that overlays share."""
    return f"{common}/{SITE}/{SITE}.env"


def component(path: str) -> tuple[str, str] | None:
    """Return the component whose folder contains a file, and the file's name; None for a file of no component."""
    steps = path.split("/")
    return (steps[5], steps[6]) if len(steps) == 7 and common(steps[2]) == "/".join(steps[:5]) else None


def component_of(path: str) -> str | None:
    """Return the component in whose folder, or in a folder of it, a file is; None for a file of no component."""
    steps = path.split("/")
    return steps[5] if len(steps) > 6 and common(steps[2]) == "/".join(steps[:5]) else None


def is_added(path: str) -> bool:
    """Return whether `path` is a file of a component that a site may add: YAML, directly in the component's folder."""
    return re.fullmatch(rf"{ADDED}/{LETTER_FIRST}/[A-Za-z0-9][A-Za-z0-9._-]*\.yaml", path) is not None


def is_patch(path: str) -> bool:
    """Return whether `path` is a patch in an overlay's folder."""
    return posixpath.dirname(posixpath.dirname(path)) == OVERLAYS and path.endswith(PATCH)


def is_editable(path: str) -> bool:
    """Whether people may edit the file, by hand or with `mlpack configure`: its lines are sealed with the package.

    These are the files of an overlay's own folder, except its wiring: its values, its patch, its list of options, and
    its manifests, which hold the number of workers and what each container may take. And of the options: their values,
    where pods are placed, and which pods get GPUs.
    """
    if not path.endswith((".env", ".yaml")) or posixpath.basename(path) == WIRING:
        return False
    if posixpath.dirname(posixpath.dirname(path)) == OVERLAYS:
        return True
    folder, name = component(path) or ("base", "")
    is_values = is_placement(path) or (folder, name) == ("gpu", KUSTOMIZATION)
    return is_values or (folder != "base" and name.endswith(".env"))
