"""JobImport: reads the roles of an operator's job, and puts them into an overlay.

Tests: modelspec/importers/test_mxjob.py.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base.problems import show
from packager.base.values import Value
from packager.modelspec.importers import pods
from packager.modelspec.importers.source import Given, Rule
from packager.workloads.jobset.rendezvous import RENDEZVOUS
from packager.workloads.program import references, reserved_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.pods import Container
    from packager.modelspec.importers.source import ForeignValue, Rules

UNREAD = "edit the overlay's manifest in the package, if the job needs it"
"""The hint for a field that has no rule."""

_RESTARTS = 3
_SHORTEST_TTL = 60
FIELDS: Rules = MappingProxyType(
    {
        **pods.FIELDS,
        **dict.fromkeys(("generateName", "uid", "resourceVersion", "generation", "managedFields"), Rule("")),
        "kubectl.kubernetes.io/last-applied-configuration": Rule(""),
        "namespace": Rule("is not in a package", "mlpack deploy -n NAMESPACE"),
        **dict.fromkeys(
            ("queue", "kueue.x-k8s.io/queue-name"),
            Rule("is the option queue of a site", option="queue", key="QUEUE"),
        ),
        "suspend": Rule("is not carried over: a deployed package runs", "the option queue holds it back"),
        "successPolicy": Rule("is not carried over: all workers have to end well"),
        "managedBy": Rule(hint="the option queue is for Kueue"),
        "network": Rule("is not carried over: the package sets its own"),
        "startupPolicy": Rule("is not carried over: all pods start together"),
        "backoffLimit": Rule("is not carried over: a pod cannot join again", "retries of the overlay"),
        "runLauncherAsWorker": Rule("becomes one more worker", "the launcher only waits"),
        "completionMode": Rule("is not carried over: it is Indexed"),
        "activeDeadlineSeconds": Rule(hint="deadline of the overlay"),
        "sshAuthMountPath": Rule("is not carried over: the package mounts the keys itself"),
    }
)
"""The reports about the fields of jobs and their pods that no spec has; some are read first."""


class Role(Value, frozen=True):
    """The pods of one role."""

    name: str
    count: Given
    entry: ForeignValue
    template: ForeignValue
    container: Container
    port: Given


class JobImport:
    """The import of one job into an overlay."""

    def __init__(self, draft: Draft, root: ForeignValue, image: str | None, overlay: str) -> None:
        self.draft = draft
        self.root = root
        self.image = image  # in place of its own
        self.every: list[Role] = []  # the roles as they are in the job, of which one may stand for several
        self.place: Location = ("overlays", overlay)

    @property
    def overlay(self) -> dict[str, Any]:
        """The overlay, as far as it is put."""
        values: dict[str, Any] = self.draft.data.get("overlays", {}).get(self.place[1], {})
        return values

    @property
    def variables(self) -> set[str]:
        """The names of the variables and the secrets of all pods."""
        return {*self.overlay.get("environment", ()), *self.draft.data.get("secrets", ())}

    def put(self, location: Location, value: Any, origin: Any) -> None:
        """Put a value into the overlay."""
        self.draft.put((*self.place, *location), value, origin)

    def put_set(self, way: str, roles: Sequence[Role], origin: Any, holders: Sequence[ForeignValue]) -> None:
        """Put a JobSet whose pods find each other in a way of `RENDEZVOUS`; `holders` have the job's policies."""
        self.put(("rendezvous",), way, origin)
        names = {name for role in roles for name in RENDEZVOUS[way].names(role.name, is_plain=True)}
        for role in roles:
            self.put(("roles", role.name), {}, role.entry.origin)
        self._put_shared(roles, way, RENDEZVOUS[way].refused)
        self._put_programs(roles, names)
        self.put_policies(holders, roles)

    def put_job(
        self,
        role: Role,
        holders: Sequence[ForeignValue],
        reserved: Callable[[str], str | None] = lambda _: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Put a Job for a role; its environment has other variables unless the role sets them."""
        self._put_shared([role], None, reserved)
        for key, value in (environment or {}).items():
            if key not in self.overlay.get("environment", {}):
                self.put(("environment", key), value, "what the operator sets")
        self._put_program((), role.container, self.variables)
        pods.put_resources(self.draft, self.place, role.container.resources)
        self.put_policies(holders, [role])

    def _put_shared(self, roles: Sequence[Role], way: str | None, reserved: Callable[[str], str | None]) -> None:
        self.put_images(sorted(roles, key=lambda role: role.name in ("worker", "node")))
        self.put_directory(roles)
        self.put_gpus(way, roles)
        self.put_environments(roles, reserved)

    def put_images(self, roles: Sequence[Role]) -> None:
        """Put the image of the last role, which computes; a role with another image gets its own."""
        if self.draft.put_image_of_option(self.image, [role.container.image for role in roles]):
            return
        for role in roles:
            if role.container.image is None:
                role.template.refuse("the container has no image", "--image REPOSITORY:TAG sets one")
        entries = {role.name: own for role in roles if (own := role.container.image) and own.text()}
        last = next(reversed(entries.values()), None)
        if last is None:
            return
        main = next(entry for entry in entries.values() if entry.value == last.value)
        self.draft.put_image(str(main.value), main.origin)
        for name, entry in entries.items():
            if entry.value != main.value:
                self.draft.put_image(str(entry.value), entry.origin, (*self.place, "roles", name, "image"))

    def put_directory(self, roles: Sequence[Role]) -> None:
        """Put the working directory, if it is the same for all roles."""
        given = [role.container.directory for role in roles]
        is_shared = len({folder and folder.value for folder in given}) == 1
        for folder in filter(None, given):
            if is_shared:
                self.put(("workdir",), folder.value, folder.origin)
            else:
                self.draft.lose(folder, "the roles start in different folders", "set WORKDIR in the image")

    def put_gpus(self, way: str | None, roles: Sequence[Role]) -> None:
        """Note the option for GPUs, of which a site has one number for all pods, and put `gpu` of roles.

        The key `gpu` of a role decides about GPUs, shared memory and the node's network together. If some roles request
        GPUs, these roles get all three.
        """
        asked = [gpus for role in roles for gpus in role.container.gpus]
        for gpus in asked:
            if (gpus.count, gpus.vendor) == (asked[-1].count, asked[-1].vendor):
                pods.put_gpus(self.draft, [gpus])
            else:
                gpus.entry.leave(f"becomes {asked[-1].count} of {asked[-1].vendor}: all pods with GPUs get the same")
        needing = {role.name for role in roles if (role.container.gpus if asked else role.container.options)}
        computes = RENDEZVOUS[way].computes if way else ()
        for role in roles if way and needing else ():
            is_needing, own = role.name in needing, role.container.gpus
            if is_needing != (not computes or role.name in computes):
                reason = f"it asks for no {'GPUs' if asked else 'such options'}"
                asking = own[0].entry if own else role.entry
                self.put(("roles", role.name, "gpu"), is_needing, asking.origin if is_needing else reason)
            if role.container.options and not is_needing:
                message = f"does not get the option {' or '.join(role.container.options)}"
                role.entry.note(message, "gpu: true of the role gives it, and GPUs")

    def put_environments(self, roles: Sequence[Role], reserved: Callable[[str], str | None]) -> None:
        """Put the variables that all roles share into the overlay, and the others into their roles."""
        mounted = self.draft.data.get("environment", {})
        kept: dict[str, dict[str, Given]] = {role.name: {} for role in roles}
        for role in roles:
            for name, given in role.container.environment.items():
                secret = "another role reads it from a Secret" if name in self.draft.data.get("secrets", {}) else None
                if reason := secret or reserved(name):
                    self.draft.note(given.origin, f"{name} is not carried over: {reason}")
                elif name not in mounted:
                    kept[role.name][name] = given
                elif given.value != mounted[name]:
                    self.draft.lose(given, f"the claim is mounted at {show(mounted[name])}")
        first = kept[roles[0].name]
        common = {
            name
            for name, given in first.items()
            if all(name in values and values[name].value == given.value for values in kept.values())
        }
        for role_name, values in kept.items():
            for name, given in values.items():
                if name not in common:
                    self.put(("roles", role_name, "environment", name), given.value, given.origin)
                elif values is first:
                    self.put(("environment", name), given.value, given.origin)

    def _put_programs(self, roles: Sequence[Role], names: Iterable[str]) -> None:
        """Put each role's number of pods, resources and program; a program that all roles share into the overlay.

        `names` are those of the variables by which pods find each other.
        """
        programs = [role.container.program for role in roles]
        foreign = {name for part in programs[0] for word in part or () for name in references(word)} - self.variables
        is_shared = not foreign and programs == programs[:1] * len(programs) and programs[0] != (None, None)
        if is_shared:
            self._put_program((), roles[0].container, self.variables)
        for role in roles:
            self.put(("roles", role.name, "replicas"), role.count.value, role.count.origin)
            if not is_shared:
                of_role = {*self.variables, *role.container.environment, *names}
                self._put_program(("roles", role.name), role.container, of_role)
            pods.put_resources(self.draft, (*self.place, "roles", role.name), role.container.resources)

    def _put_program(self, place: Location, container: Container, known: Iterable[str]) -> None:
        """Put command and args, with references to variables not in `known` escaped."""
        for key, given in (("command", container.command), ("args", container.args)):
            if given is not None:
                self.put((*place, key), [pods.escaped(word, known) for word in given.value], given.origin)
        if container.command is None and container.args is None:
            self.put((*place, "command"), [], "none: the image's own entrypoint")

    def put_policies(self, holders: Iterable[ForeignValue], roles: Sequence[Role]) -> None:
        """Put restarts, limits of time, priority and queue into an overlay, or report them."""
        holders, roles = [*holders], self.every or roles
        self._put_retries(holders, roles)
        own = [role.template.at("spec", "priorityClassName") for role in roles]
        of_all = [holder.at("schedulingPolicy", "priorityClass") for holder in holders]
        entries = [entry for entry in (*own, *of_all) if entry is not None]
        if len({entry.text() for entry in entries}) == 1 and (any(of_all) or None not in own):
            self.put(("priority_class",), entries[0].text(), entries[0].origin)
        else:
            for entry in entries:
                entry.leave("is not carried over: all pods of a workload have the same")
        for holder in holders:
            self.draft.put_whole((*self.place, "deadline"), holder.child("activeDeadlineSeconds"))
            limit = holder.child("ttlSecondsAfterFinished")
            seconds = limit.whole() if limit else None
            if limit and seconds is not None:
                if seconds < _SHORTEST_TTL:
                    message = f"becomes {_SHORTEST_TTL} seconds, found {seconds}"
                    limit.leave(message, "sooner, no one would see the result")
                self.put(("ttl",), max(seconds, _SHORTEST_TTL), limit.origin)

    def _put_retries(self, holders: Iterable[ForeignValue], roles: Sequence[Role]) -> None:
        limits = [limit for holder in holders if (limit := holder.child("backoffLimit"))]
        places = [(role.entry.child("restartPolicy"), role.template.at("spec", "restartPolicy")) for role in roles]
        policies = [entry for pair in places for entry in pair if entry]
        restarting = [entry for entry in policies if entry.value != "Never"]
        number = (limits[0].whole() or 0) if limits else _RESTARTS if restarting else 0
        by_code = [entry for entry in restarting if entry.value == "ExitCode"]
        # A JobSet has one list of codes for all pods: if some pods restart after any code, no code is permanent.
        is_set = "roles" in self.overlay
        is_permanent = is_set and number > 0 and bool(by_code) and by_code == restarting
        for entry in restarting:
            codes = ", and exit codes 1 to 127 are retried too" if entry in by_code and not is_permanent else ""
            cause = "an exit code above 127" if is_permanent else "a failure"
            scope = "all pods start" if is_set else "the job starts"
            entry.leave(f"is {entry.text()}: after {cause} {scope} again, at most {number} times{codes}")
        if sources := (*limits, *restarting, *policies):
            self.put(("retries",), number, sources[0].origin)
        if is_permanent:
            self.put(("permanent_exit_codes",), "1-127", by_code[0].origin)


def put_names(draft: Draft, root: ForeignValue, longest: int, framework: tuple[str, str]) -> None:
    """Put the name, the title and the framework; report the rest of the metadata."""
    metadata = root.child("metadata")
    originals = [metadata.at(key) for key in ("name", "generateName")] if metadata else []
    original = next(filter(None, originals), None)
    text = (original.text() if original else None) or ""
    if original is None or not text:
        (metadata or root).refuse("the name is missing", "set metadata.name")
    hint = f"names are in lower case, and at most {longest} long"
    draft.put_name(original, text, "job", "no name", hint, longest)
    draft.put(("framework",), *framework)
    for key in ("labels", "annotations"):
        root.at("metadata", key)


_OF_RANKS = ("x", "genv", "env")
_WITHOUT_VALUE = re.compile(r"allow-run-as-root|tag-output|oversubscribe|v|verbose|q|quiet|display-map|gpu|mpi|gloo")


def mpirun(draft: Draft, place: Location, entry: ForeignValue, words: list[str]) -> list[str]:
    """Return the program that each rank runs: the words without mpirun, whose options are put or reported."""
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        name = option.lstrip("-")
        if _WITHOUT_VALUE.fullmatch(name):
            continue
        value = value if equals else rest.pop(0) if rest else ""
        variable, _, text = value.partition("=")
        if name == "mca" and rest:
            variable, text = f"OMPI_MCA_{value}", rest.pop(0)
        elif name in ("np", "n"):
            if value.isdigit():
                draft.put((*place, "processes"), int(value), entry.origin)
            continue
        elif name not in _OF_RANKS or not text:
            if name not in ("x", "bind-to"):
                entry.note(f"of mpirun, {option} {value} is not carried over", "set it by a variable, if MPI needs it")
            continue
        is_secret = "it is read from a Secret" if variable in draft.data.get("secrets", ()) else None
        if complaint := is_secret or reserved_by(variable, "mpi") or pods.complaint_about(variable, text):
            entry.note(f"of mpirun, {variable} is not carried over: {complaint}")
        else:
            draft.put((*place, "environment", variable), text, entry.origin)
    return rest
