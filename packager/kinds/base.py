"""What every kind of overlay has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from packager.spec.fields import Fields, Resources

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a kind has to say against its own values: where below the overlay, what, and the fix."""

    location: tuple[str | int, ...]
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where a pod is written in a workload's manifest, for what patches it.

    Attributes:
        path: Its spec, as the fieldPath of a kustomize replacement.
        container: The name of its main container, which is the first one.
        computes: Whether the model runs there; a launcher only starts what runs elsewhere.
        role: The labels by which the pods of this place are known, among all workloads.
        workload: The label whose value tells these pods from another workload's; None for a pod by itself.
        port: Where its sshd listens, when it has one.
    """

    path: str
    container: str
    computes: bool = True
    role: tuple[tuple[str, str], ...] = ()
    workload: str | None = None
    port: int | None = None

    @property
    def pointer(self) -> str:
        """Its spec as a JSON pointer (RFC 6901), for JSON patches."""
        return f"/{self.path.replace('.', '/')}"


class Overlay(Fields, frozen=True, tag_field="kind"):
    """One way to run the model: an overlay of the package."""

    resources: Annotated[
        Resources, Meta(description="Of the container that computes: the Pod's, or each worker's.")
    ] = Resources()

    readme: ClassVar[str]
    """How the README calls a workload of this kind."""

    pods: ClassVar[tuple[PodPlace, ...]]
    """The pods of a workload of this kind, in the order of its manifest."""

    def longest_name(self, workload: str) -> str:
        """Return the longest name that anything of `workload` will have in the cluster."""
        return workload

    def complaints(self) -> Iterator[Complaint]:
        """Yield what is wrong among the overlay's own values, beyond what their types say."""
        yield from ()

    @property
    def kind(self) -> str:
        """The Kubernetes kind, which is also the name of the template folder."""
        return type(self).__name__
