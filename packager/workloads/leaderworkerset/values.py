"""LeaderWorkerSet: groups of pods that serve one model together. Tests: workloads/leaderworkerset/test_values.py."""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal

from packager.base.fields import RelativePath, Resources, Word
from packager.base.problems import Fault
from packager.base.values import Fields, Meta
from packager.base.yamlio import Location
from packager.workloads import amounts
from packager.workloads.amounts import Amount
from packager.workloads.program import LWS_VARIABLES, Program, Run, directory, of_script
from packager.workloads.serving import Serving

ROLES = {"leader": "leaderTemplate", "worker": "workerTemplate"}
"""The roles of pods, with the field of each one's template."""


def _pods(role: str) -> str:
    """Return the fieldPath of the spec of a role's pods."""
    return f"spec.leaderWorkerTemplate.{ROLES[role]}.spec"


class Leader(Fields, frozen=True):
    """Keys of the first pod of each group. All else is as in the workers."""

    resources: Annotated[Resources | None, Meta(description="Of its container; without it, those of the overlay.")] = (
        None
    )
    script: Annotated[
        RelativePath | None,
        Meta(description="One of `files`: what it runs, in place of what the overlay or the variant says."),
    ] = None
    command: Annotated[
        list[Word] | None, Meta(description="What it runs in place of a script; as `command` of an overlay.")
    ] = None
    args: Annotated[
        list[Word] | None,
        Meta(description="The arguments of the script, of `command` or, without both, of the image's entrypoint."),
    ] = None


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
    leader: Annotated[Leader, Meta(description="What the first pod of each group has of its own.")] = Leader()

    readme = "a LeaderWorkerSet"
    setters = ("leaderworkerset",)

    @property
    def traits(self) -> frozenset[str]:
        """The traits of a workload that serves, and of pods on several nodes."""
        return super().traits | {"several"}

    def longest_name(self, workload: str) -> str:
        """Return the longest name that is made of the workload's, with the index of a group and a hash, in a label."""
        return f"{workload}-{self.replicas - 1}-{'0' * 10}"

    def resources_of(self, role: str) -> Resources:
        """Return the resources of each pod of a role."""
        return (self.leader.resources if role == "leader" else None) or self.resources

    def keys_of(self, role: str) -> str:
        """Return the beginning of the keys in mlops.env for the resources of a role."""
        return amounts.prefix(role) if role == "leader" and self.leader.resources is not None else ""

    def run_of(self, role: str, run: Run) -> Run:
        """Return the Run of a role's pods, if the overlay has `run`."""
        leader = self.leader
        if role != "leader" or not self._leader_has_program:
            return run
        scripts = () if leader.command is not None else (leader.script,) if leader.script else run.scripts
        return Run(scripts, tuple(leader.args or ()), run.workdir, run.init)

    @property
    def _leader_has_program(self) -> bool:
        return any(value is not None for value in (self.leader.script, self.leader.command, self.leader.args))

    def program_of(self, role: str, run: Run) -> Program:
        """Return the program of a role's pods, if the overlay has `run`."""
        of_role = self.run_of(role, run)
        if of_role.scripts:
            return of_script(of_role)
        command = self.leader.command if role == "leader" and self._leader_has_program else self.command
        return Program(tuple(command or ()), of_role.args, directory(of_role.workdir))

    def amounts(self, run: Run) -> Iterator[Amount]:
        """Yield the numbers of groups and of pods in each, and the resources."""
        yield Amount("REPLICAS", str(self.replicas), "The number of groups.", ("spec.replicas",))
        size = ("spec.leaderWorkerTemplate.size",)
        yield Amount("GROUP_SIZE", str(self.size), "The number of pods in each group, with the leader.", size)
        alike = [role for role in ROLES if not self.keys_of(role)]
        yield from amounts.quantities(self.resources, [path for role in alike for path in run.containers(_pods(role))])
        if self.leader.resources is not None:
            yield from amounts.quantities(self.leader.resources, run.containers(_pods("leader")), "leader")

    def faults(self) -> Iterator[Fault]:
        """Yield errors among the ports and probes, and a leader with two programs."""
        yield from super().faults()
        if self.leader.script is not None and self.leader.command is not None:
            message = f"the leader runs the script {self.leader.script!r} already"
            yield Fault(("leader", "command"), message, "remove one of them", at_key=True)

    def containers(self) -> Iterator[tuple[Location, Resources]]:
        """Yield the resources of the overlay, and those of the leader if it has its own."""
        yield from super().containers()
        if self.leader.resources is not None:
            yield ("leader", "resources"), self.leader.resources

    def programs(self) -> Iterator[tuple[Location, str]]:
        """Yield the scripts that run in place of the variant's."""
        yield from super().programs()
        if self.leader.script is not None:
            yield ("leader", "script"), self.leader.script

    def executed(self, run: Run) -> Iterator[str]:
        """Yield the scripts of both roles."""
        yield from dict.fromkeys(script for role in ROLES for script in self.run_of(role, run).scripts)

    def words(self) -> Iterator[tuple[Location, Sequence[str], Collection[str]]]:
        """Yield the words that containers start, with the variables that LeaderWorkerSet adds to all of them."""
        for location, words, _ in super().words():
            yield location, words, LWS_VARIABLES
        for key in ("command", "args"):
            yield ("leader", key), getattr(self.leader, key) or (), LWS_VARIABLES
