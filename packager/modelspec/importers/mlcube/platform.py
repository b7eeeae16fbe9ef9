"""Puts the platform of a cube into the draft: accelerators, memory and disk.

Tests: modelspec/importers/mlcube/test_read.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.problems import show
from packager.modelspec.importers.draft import Sketch, with_option
from packager.package.options import KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.importers.mlcube.tasks import CubeTask
    from packager.modelspec.importers.source import ForeignValue

_MOST_GIGABYTES = 1_000_000
_VENDORS = {"nvidia": "nvidia.com", "amd": "amd.com", "intel": "gpu.intel.com"}


def put_platform(sketch: Sketch, root: ForeignValue, gpus: int | None, chosen: Sequence[CubeTask]) -> None:
    """Put the accelerators, the memory and the disk that a cube needs into the draft.

    Args:
        sketch: The draft.
        root: The cube.
        gpus: The number of GPUs, in place of the cube's.
        chosen: The tasks that become overlays.
    """
    section = root.at("platform")
    values = {entry.key: entry for entry in section.children()} if section else {}
    count_entry = values.pop("accelerator_count", None)
    maker = values.pop("accelerator_maker", None)
    count = count_entry.whole(0, 9999) if count_entry and count_entry.value is not None else 0
    if gpus is not None:
        count = gpus
        if count and (complaint := KEYS["GPU_COUNT"].complaint(str(count))):
            raise UsageError(f"--gpus {count}: {complaint}")
    if count:
        hint = with_option(sketch, "gpu", GPU_COUNT=str(count), **_vendor(maker))
        if count_entry:
            count_entry.leave("is the option gpu of a site", hint)
    elif maker and maker.value is not None:
        maker.leave(f"({show(maker.value)}) is not carried over: the cube asks for no accelerators")
    memory, disk = values.pop("host_memory_gb", None), values.pop("host_disk_space_gb", None)
    size = _gigabytes(memory)
    for task in chosen if memory and size else ():
        assert memory is not None
        place_of: Location = ("overlays", task.overlay, "resources", "requests", "memory")
        sketch.put(place_of, size, memory.origin)
    _disk(sketch, disk)
    for entry in values.values():
        if entry.value is not None:
            entry.leave(f"({show(entry.value)}) is not carried over")


def _disk(sketch: Sketch, entry: ForeignValue | None) -> None:
    """Set the size of the workspace's claim to the disk size that the cube needs."""
    size = _gigabytes(entry)
    if entry is None or size is None:
        return
    if "workspace" in sketch.data:
        sketch.site["CLAIM_SIZE"] = size
        entry.leave("is the size of the claim", f"--site CLAIM_SIZE={size}")
    else:
        entry.leave(f"({show(entry.value)}) is not carried over", "the claim has to be as large")


def _vendor(maker: ForeignValue | None) -> dict[str, str]:
    """Return the value for `site.env` that names the vendor of an accelerator."""
    if maker is None or not maker.value:
        return {}
    vendor = _VENDORS.get(str(maker.value).lower())
    if vendor is None:
        maker.leave(f"is unknown: {show(maker.value)}", "--site GPU_VENDOR=… names the vendor of the resource")
    return {} if vendor in (None, "nvidia.com") else {"GPU_VENDOR": vendor or ""}


def _gigabytes(entry: ForeignValue | None) -> str | None:
    """Return a number of gigabytes as a quantity; None for null and zero, and, with a problem, for an invalid value."""
    if entry is None or entry.value is None:
        return None
    if isinstance(entry.value, float) and 0 <= entry.value <= _MOST_GIGABYTES:
        mebibytes = math.ceil(entry.value * 1024)
        size = f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"
        return size if mebibytes else None
    number = entry.whole(0, _MOST_GIGABYTES)
    return f"{number}Gi" if number else None
