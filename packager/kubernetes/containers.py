"""Rules for the containers of a package: variables, folders of volumes, and resources.

Tests: verify/test_runnable.py.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packager.base import names, units
from packager.base.problems import Fault, show, similar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_LOADER = "it would be loaded into every program in the pod, including sshd and mpirun"
_SHELL = "the shell would run it before each script of the package"
_PYTHON = "Python would load modules or run code from outside the image"

_YAML = "kustomize reads the name as a boolean or as null, and makes no ConfigMap with it"

_REASONS = {
    "HOME": "the package sets it to a folder that the pod's user can write to",
    "PATH": "it would replace the image's value, which leads to mpirun, ssh and python3",
    "LD_PRELOAD": _LOADER,
    "LD_AUDIT": _LOADER,
    "BASH_ENV": _SHELL,
    "SHELLOPTS": _SHELL,
    "BASHOPTS": _SHELL,
    "PS4": _SHELL,
    "IFS": "it changes how shells read the scripts of the package",
    "PYTHONSTARTUP": _PYTHON,
    "PYTHONHOME": _PYTHON,
    "PERL5OPT": "Perl would run code from outside the image",
    "NODE_OPTIONS": "Node.js would run code from outside the image",
    **{form: _YAML for word in ("true", "false", "null") for form in (word, word.capitalize(), word.upper())},
}


BUILT = frozenset(("HOME", "MLPACK_ENV_DIR"))
"""The variables among these that builds themselves set, in the manifests of containers."""


def refusal_reason(key: str) -> str | None:
    """Return the reason why a package must not set the variable `key`; None if it may."""
    if key.startswith("MLPACK_"):
        return "names that start with MLPACK_ are reserved for mlpack"
    return _REASONS.get(key)


_REFERENCE = re.compile(rf"\$\$|\$\(({names.VARIABLE})\)")


def references(text: str) -> list[str]:
    """Return the names in each `$(NAME)` of a text."""
    return [name for name in _REFERENCE.findall(text) if name]


# Folders that an image's programs need, and where no runtime mounts volumes (runc, libcontainer: checkProcMount).
_SYSTEM = frozenset(
    """
    / /bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /proc /run /sbin /sys /usr /usr/bin /usr/lib /usr/lib64 /usr/local
    /usr/local/bin /usr/local/lib /usr/sbin /var
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)
# Where every package mounts something itself (`packager/builder/templates/macros.yaml`).
_PACKAGE_FOLDERS = frozenset(("/etc/mlpack", "/etc/mlpack/env", "/etc/mlpack/runtime", "/run/mlpack", "/home/mlpack"))
_KERNEL_FOLDERS = ("/proc", "/sys")

_FORM = "expected an absolute path (or one below ROOT) without ':' and '..'"

MOUNTED = ("DATASET_DIR", "OUTPUT_DIR", "CHECKPOINT_DIR")
"""The keys of mlops.env that a volume is mounted at as they are."""

ROOT = "ROOT"
"""The placeholder in mlops.env for the folder that contains the package."""


def normalized(path: str) -> str:
    """Return the absolute folder that `path` means to the kubelet."""
    return posixpath.normpath(f"/{path}").replace("//", "/")


def folder_complaint(path: str) -> str | None:
    """Return why no volume of a package can be mounted at `path`, absolute or below ROOT; None if one can."""
    if not path.startswith(("/", f"{ROOT}/")):
        return f"{_FORM}, found {path!r}"
    if normalized(path) in _PACKAGE_FOLDERS:
        return f"the package already mounts something at {normalized(path)}: use another folder"
    return mount_complaint(path)


def mount_complaint(path: str) -> str | None:
    """Return why no volume can be mounted at a path of a manifest; None if one can."""
    folder = normalized(path)
    if ":" in path or ".." in path.split("/") or not path.strip("/ "):
        return f"{_FORM}, found {path!r}"
    if folder in _SYSTEM or folder.startswith(tuple(f"{kernel_folder}/" for kernel_folder in _KERNEL_FOLDERS)):
        return f"a volume at {folder} would hide what the container needs there: use another folder"
    return None


def root_fault(root: str) -> str | None:
    """Return the expected form of a folder for packages if `root` does not have it; else None."""
    has_form = re.fullmatch(r"/[^\x00-\x1f\x7f:\ud800-\udfff\ufffe\uffff]*", root) and root.strip("/ ")
    return None if has_form and ".." not in root.split("/") else "expected an absolute path without ':' and '..'"


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


def resource_faults(requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the errors that the API server reports for these names and quantities; each quantity has a valid form.

    A fault's location begins with `requests` or `limits`.
    """
    for part, quantities in (("requests", requests), ("limits", limits)):
        for name, value in quantities.items():
            yield from _name(part, name)
            yield from _value(part, name, value)
    for name, request in requests.items():
        yield from _request_and_limit(name, request, limits.get(name))


def quantity_complaint(name: str, value: str) -> str | None:
    """Return the reason why a text is not a quantity of a resource; None if it is one."""
    try:
        units.parse_quantity(value)
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
    number = units.parse_quantity(value)
    if number < 0:
        yield Fault((part, name), f"{value} is negative")
    elif _is_extended(name) and number != number.to_integral_value():
        yield Fault((part, name), f"expected a whole number of {name}, found {value}", "devices are not shared")


def _request_and_limit(name: str, request: str, limit: str | None) -> Iterator[Fault]:
    place, needs = ("requests", name), (("limits",),)
    if limit is None:
        if _is_extended(name):
            message = f"a request for {name} needs an equal limit, but there is none"
            yield Fault(place, message, needs=needs)
    elif units.parse_quantity(request) > units.parse_quantity(limit):
        message = f"requests {request} of {name}, above its limit of {limit}"
        yield Fault(place, message, "raise the limit, or lower the request", needs=needs)
    elif _is_extended(name) and units.parse_quantity(request) != units.parse_quantity(limit):
        message = f"requests {request} of {name}, which must equal its limit of {limit}"
        yield Fault(place, message, needs=needs)


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
