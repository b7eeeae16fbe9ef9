"""Lists environment variables that a package must not set: they decide what a pod runs, or are no names to YAML."""

from __future__ import annotations

import re

from packager.base.names import VARIABLE

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


_REFERENCE = re.compile(rf"\$\$|\$\(({VARIABLE})\)")


def references(text: str) -> list[str]:
    """Return the names in each `$(NAME)` of a text."""
    return [name for name in _REFERENCE.findall(text) if name]
