"""LeaderWorkerSet: groups of pods that serve one model together. Tests: workloads/leaderworkerset/test_values.py."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from packager.base.values import Meta, replace
from packager.base.yamlio import Location
from packager.workloads import amounts
from packager.workloads.amounts import Amount
from packager.workloads.overlay import Role
from packager.workloads.program import LWS_VARIABLES, Run
from packager.workloads.serving import Serving

ROLES = {"leader": "leaderTemplate", "worker": "workerTemplate"}
"""The roles of pods, with the field of each one's template."""


def _pods(role: str) -> str:
    """Return the fieldPath of the spec of a role's pods."""
    return f"spec.leaderWorkerTemplate.{ROLES[role]}.spec"


class LeaderWorkerSet(Serving, frozen=True, kw_only=True, tag="LeaderWorkerSet"):
    """Groups of pods on several nodes that serve one model together, such as vLLM or SGLang; needs LeaderWorkerSet."""

    size: Annotated[int, Meta(ge=1, le=1_000, description="The number of pods in each group: a leader and workers.")]
    replicas: Annotated[
        int, Meta(ge=1, le=1_000, description="The number of groups, each of which serves the whole model.")
    ] = 1
    restart_policy: Annotated[
        Literal["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"],
        Meta(
            description="What happens when a container ends or a pod goes: `RecreateGroupOnPodRestart` starts all pods "
            "of its group again; `RecreateGroupAfterStart` does so only after all of them have started; `None` starts "
            "only that one again."
        ),
    ] = "RecreateGroupOnPodRestart"
    surge: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000,
            description="How many more groups there may be while groups are replaced. With 0, an old group is stopped "
            "before its new one starts.",
        ),
    ] = 0
    leader: Annotated[Role, Meta(description="What the first pod of each group has of its own.")] = Role()

    readme = "a LeaderWorkerSet"
    setters = ("leaderworkerset",)

    @property
    def traits(self) -> frozenset[str]:
        """The traits of a workload that serves, and of pods on several nodes."""
        return super().traits | {"several"}

    @property
    def role_keys(self) -> Mapping[str, tuple[Location, Role]]:
        """The leader with its own keys, and the workers without any."""
        return {"leader": (("leader",), self.leader), "worker": ((), Role())}

    def variables_of(self, role: str) -> Collection[str]:  # noqa: ARG002 - all have the same
        """Return the variables that LeaderWorkerSet adds to every container."""
        return LWS_VARIABLES

    def longest_name(self, workload: str) -> str:
        """Return the longest name that is made of the workload's, with the index of a group and a hash, in a label."""
        return f"{workload}-{self.replicas - 1}-{'0' * 10}"

    def run_of(self, role: str, run: Run) -> Run:
        """Return the Run of a role's pods; a leader with a script of its own has no arguments of others."""
        of_role = super().run_of(role, run)
        has_others = role == "leader" and self.leader.script is not None and self.leader.args is None
        return replace(of_role, args=()) if has_others else of_role

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield the numbers of groups and of pods in each, and the resources."""
        yield Amount("REPLICAS", str(self.replicas), "The number of groups.", ("spec.replicas",))
        size = ("spec.leaderWorkerTemplate.size",)
        yield Amount("GROUP_SIZE", str(self.size), "The number of pods in each group, with the leader.", size)
        alike = [role for role in ROLES if not self.keys_of(role)]
        yield from amounts.quantities(self.resources, [path for role in alike for path in run.containers(_pods(role))])
        if self.leader.resources is not None:
            yield from amounts.quantities(self.leader.resources, run.containers(_pods("leader")), "leader")
