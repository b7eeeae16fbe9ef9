"""The keys of kinds that serve: their ports, and how their pods become ready. Tests: modelspec/test_messages.py."""

from collections.abc import Iterator
from typing import Annotated, Literal

from packager.base.fields import Word, anchored
from packager.base.problems import Fault, similar
from packager.base.values import Fields, Meta
from packager.workloads.overlay import OverlaySpec

# A port's name is an IANA service name (apimachinery, IsValidPortName), and a Service's besides a DNS label.
PortName = Annotated[
    str,
    Meta(
        pattern=anchored(r"[a-z]([a-z0-9]|-[a-z0-9])*"),
        max_length=15,
        title="a port's name of lower-case letters, digits and '-', starting with a letter (at most 15)",
        examples=["http"],
    ),
]

UrlPath = Annotated[
    str,
    Meta(
        pattern=anchored(r"/[-A-Za-z0-9._~!&()*+,;=:@%/?]*"),
        max_length=1000,
        title="the path of a URL, starting with '/'",
        examples=["/healthz"],
    ),
]

PROBE_PERIOD = 2
"""Seconds from one question to the next, whether a pod is ready."""

DRAIN_SECONDS = 5
"""Seconds until all clients know that a pod gets no more requests (kubernetes/kubernetes#106476)."""


class Port(Fields, frozen=True):
    """A port that the program listens on, and that its Service has."""

    port: Annotated[
        int, Meta(ge=1024, le=65535, description="Its number. Ports below 1024 may be closed to users other than root.")
    ]
    protocol: Annotated[Literal["http", "grpc", "tcp"], Meta(description="The protocol, for meshes and gateways.")] = (
        "http"
    )


class Ready(Fields, frozen=True):
    """How Kubernetes finds out that a pod serves."""

    port: Annotated[
        PortName | None,
        Meta(description="The port that must accept connections or, with `path`, answer with 2xx or 3xx."),
    ] = None
    path: Annotated[UrlPath | None, Meta(description="The path to request by HTTP.")] = None
    command: Annotated[
        Annotated[list[Annotated[Word, Meta(min_length=1)]], Meta(min_length=1)] | None,
        Meta(description="A command in the container that must end with 0, instead of `port`."),
    ] = None


class Serving(OverlaySpec, frozen=True, kw_only=True):
    """A workload that serves until it is deleted, behind a Service."""

    ports: Annotated[
        dict[PortName, Port],
        Meta(
            description="The ports of the program and of its Service, by name.",
            min_length=1,
            examples=[{"http": {"port": 8080}}],
        ),
    ]
    ready: Annotated[
        Ready | None,
        Meta(description="When a pod gets requests; if not set, when its first port accepts connections."),
    ] = None
    starts_within: Annotated[
        int,
        Meta(
            ge=10,
            le=86_400,
            description="The time in seconds for a pod to become ready, and for a rollout without progress.",
        ),
    ] = 300
    stops_within: Annotated[
        int,
        Meta(
            ge=10,
            le=3_600,
            description="The time in seconds for a pod to answer its last requests before it is stopped.",
        ),
    ] = 30

    serves = True

    @property
    def traits(self) -> frozenset[str]:
        """The trait of a workload that serves."""
        return frozenset({"serves"})

    def faults(self) -> Iterator[Fault]:
        """Yield conflicting keys in `ready`."""
        yield from super().faults()
        ready = self.ready
        if ready is None:
            return
        if (ready.port is None) == (ready.command is None):
            kinds = "both" if ready.port else "neither"
            yield Fault(("ready",), f"expected either `port` or `command`, found {kinds}", at_key=True)
        if ready.path is not None and ready.port is None:
            yield Fault(("ready", "path"), "`path` needs `port`, because it is requested by HTTP", at_key=True)
        if ready.port is not None and ready.port not in self.ports:
            hint = similar(ready.port, self.ports) or f"the ports are: {', '.join(self.ports)}"
            yield Fault(("ready", "port"), f"port {ready.port!r} not found", hint)

    @property
    def probe(self) -> Ready:
        """The port and path that the probes of a pod ask."""
        return self.ready or Ready(port=next(iter(self.ports)))

    @property
    def start(self) -> tuple[int, int]:
        """The period, in seconds, of the startup probe, and the number of failures that it allows."""
        return PROBE_PERIOD, -(-self.starts_within // PROBE_PERIOD)

    @property
    def stop(self) -> tuple[int, int]:
        """The seconds that a stopping pod still serves without new requests, and those after which it is killed."""
        return DRAIN_SECONDS, DRAIN_SECONDS + self.stops_within
