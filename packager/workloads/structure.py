"""Structure: the base class for the manifests of a kind (`<kind>/structure.py`). Tests: verify/test_podspec.py."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.faults import Fault
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.workloads.pods import Pods


class Structure(ABC):
    """Reads the manifests of one kind."""

    api: ClassVar[str]
    """The apiVersion that builds write."""

    maker: ClassVar[str] = "Kubernetes"
    """The controller that makes the pods and the objects of `made_objects`."""

    companion_kinds: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The apiVersions and kinds of the objects that a build adds to the workload; each has the workload's name."""

    name_length: ClassVar[int] = 63
    """The characters that a workload's name may have: it becomes the value of a label, or a host's name."""

    ranges: ClassVar[Mapping[str, tuple[int, int | None]]] = MappingProxyType({})
    """The least and the most that numbers below the workload's `spec` may be, by their path; `*` is each of a list."""

    defaults: ClassVar[Mapping[str, object]] = MappingProxyType({})
    """The values that its CRD gives to fields which a manifest leaves out, by their dotted path."""

    suspend: ClassVar[Location] = ()
    """The field that suspends the workload, as a queue sets it; empty if the kind has none."""

    @property
    def schema(self) -> Path:
        """The schema of the kind's fields: a file in its folder, except for Kubernetes' own kinds (`tools.schemas`)."""
        return Path(str(sys.modules[type(self).__module__].__file__)).with_name("schema.json")

    def is_of(self, manifest: Manifest) -> bool:
        """Whether a manifest with the name of this kind is of its group, in whatever version."""
        is_version = manifest.api != "" and manifest.api.count("/") < 2
        return is_version and manifest.group == self.api.rpartition("/")[0]

    @abstractmethod
    def pods(self, manifest: Manifest) -> Iterator[Pods]:
        """Yield the pods of each template of a manifest of this kind, in its order."""

    def faults(self, manifest: Manifest) -> Iterator[Fault]:  # noqa: ARG002 - for those that have some
        """Yield values in a manifest of this kind that the cluster would refuse or misinterpret.

        The schema checks fields and types, and other checks of `verify` the pods themselves.
        """
        yield from ()

    def reserved(self, manifest: Manifest, key: str) -> str | None:  # noqa: ARG002 - the same
        """Return why the environment variable `key` of its pods must not be set; None if it may be."""
        return None

    def added_variables(self, manifest: Manifest) -> tuple[str, ...]:  # noqa: ARG002 - the same
        """Return the environment variables that Kubernetes adds to its containers, beside what the manifest says."""
        return ()

    def longest_name(self, manifest: Manifest) -> str | None:  # noqa: ARG002 - the same
        """Return the longest name that a pod gets; None when nothing is put behind the workload's name."""
        return None

    def made_objects(self, manifest: Manifest) -> tuple[tuple[str, str], ...]:  # noqa: ARG002 - the same
        """Return the kinds and names of the objects that `maker` makes for the workload, beside its pods."""
        return ()

    def companion_faults(self, manifest: Manifest, companion: Manifest) -> Iterator[Fault]:  # noqa: ARG002 - the same
        """Yield each selector and reference of a companion object that does not match the workload."""
        yield from ()

    def makes_object(self, manifest: Manifest, kind: str, name: str) -> bool:
        """Whether `maker` makes an object of this kind and name for the workload; its pods are among them."""
        return (kind, name) in self.made_objects(manifest)
