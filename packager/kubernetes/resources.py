"""Checks resource requests and limits (pkg/apis/core/validation). Tests: verify/test_podspec.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import names, quantity
from packager.base.faults import Fault
from packager.base.problems import show, similar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


STANDARD = ("cpu", "memory", "ephemeral-storage")


def is_whole_gpu(resource: str) -> bool:
    """Whether a resource counts whole GPUs: each of them gets a process, and their number is GPUS in mlops.env."""
    return resource.partition("/")[2] == "gpu"


def is_gpu_or_part(resource: str) -> bool:
    """Whether a resource is GPUs or parts of them: what the options `gpu` and `device-claim` replace.

    Parts are NVIDIA's MIG slices and what the drivers of Intel share. A part runs no process of its own: CUDA shows one
    slice to a process, and several shares may be of one GPU.
    """
    domain, _, name = resource.partition("/")
    return is_whole_gpu(resource) or name.startswith("mig-") or domain == "gpu.intel.com"


def faults(requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the errors that the API server reports for these names and quantities; each quantity has a valid form.

    A fault's location begins with `requests` or `limits`.
    """
    for part, quantities in (("requests", requests), ("limits", limits)):
        for name, value in quantities.items():
            yield from _name(part, name)
            yield from _value(part, name, value)
    for name, request in requests.items():
        yield from _request_and_limit(name, request, limits.get(name))


def complaint(name: str, value: str) -> str | None:
    """Return the reason why a text is not a quantity of a resource; None if it is one."""
    try:
        quantity.parse(value)
    except ValueError:
        return f"expected a quantity such as {'64Gi' if name == 'memory' else '8'}, found {show(value)}"
    return next((fault.message for fault in _value("limits", name, value)), None)


def _name(part: str, name: str) -> Iterator[Fault]:
    if not names.is_key(name) or name.startswith("requests."):
        form = "use at most 63 letters, digits and '-_.', after a domain and '/' for a device"
        yield Fault((part, name), f"{name!r} is not a valid resource name", form, at_key=True)
    elif "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
        near = None if name.endswith("gpu") else similar(name, STANDARD)
        hint = near or "a device has a domain: nvidia.com/gpu"
        yield Fault((part, name), f"Kubernetes has no resource {name!r}", hint, at_key=True)


def _value(part: str, name: str, value: str) -> Iterator[Fault]:
    number = quantity.parse(value)
    if number < 0:
        yield Fault((part, name), f"{value} is negative")
    elif _is_extended(name) and number != number.to_integral_value():
        yield Fault((part, name), f"expected a whole number of {name}, found {value}", "devices are not shared")


def _request_and_limit(name: str, request: str, limit: str | None) -> Iterator[Fault]:
    place = ("requests", name)
    if limit is None:
        if _is_extended(name):
            message = f"a request for {name} needs an equal limit, but there is none"
            yield Fault(place, message)
    elif quantity.parse(request) > quantity.parse(limit):
        message = f"requests {request} of {name}, above its limit of {limit}"
        yield Fault(place, message, "raise the limit, or lower the request")
    elif _is_extended(name) and quantity.parse(request) != quantity.parse(limit):
        message = f"requests {request} of {name}, which must equal its limit of {limit}"
        yield Fault(place, message)


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
