"""Defines which files of a package people may edit."""

from __future__ import annotations

import posixpath

from packager.package import layout


def is_editable(path: str) -> bool:
    """Whether people may edit the file, by hand or with `mlpack configure`: its lines are sealed with the package.

    These are the files of an overlay's own folder, except its wiring: its values, its patch, its list of options, and
    its manifests, which hold the number of workers and what each container may take. And of the options: their values,
    where pods are placed, and which pods get GPUs.
    """
    if not path.endswith((".env", ".yaml")) or posixpath.basename(path) == layout.WIRING:
        return False
    if posixpath.dirname(posixpath.dirname(path)) == layout.OVERLAYS:
        return True
    folder, name = layout.component(path) or ("base", "")
    is_values = layout.is_placement(path) or (folder, name) == ("gpu", layout.KUSTOMIZATION)
    return is_values or (folder != "base" and name.endswith(".env"))
