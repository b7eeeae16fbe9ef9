"""JobImport: reads the roles of an operator's job, and puts them into an overlay.

Tests: modelspec/importers/test_mxjob.py.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.base.values import Value
from packager.modelspec.importers import pods
from packager.modelspec.importers.source import Given, Rule, decided, invalid, template
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
        "completionMode": Rule("is not carried over: it is Indexed"),
        "activeDeadlineSeconds": Rule(hint="deadline of the overlay"),
        "sshAuthMountPath": Rule("is not carried over: the package mounts the keys itself"),
    }
)
"""What becomes of the fields of jobs and their pods that no spec has; some are read first."""


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

    def read_role(  # noqa: PLR0913, PLR0917 - what kinds of jobs differ in
        self,
        name: str,
        entry: ForeignValue,
        template: ForeignValue | None,
        count: Given | None,
        container: str = "",
        port: str = "",
        *,
        is_required: bool = False,
    ) -> Role | None:
        """Return a role; None, with a problem, if it is not valid, and without one if it has no pods.

        Args:
            name: The name of the role.
            entry: The role in the job.
            template: The template of its pods.
            count: The number of its pods; None for a number that is not valid.
            container: The name of the container that computes; the first one if no container has it.
            port: The name of the port on which the pods find each other.
            is_required: Whether a container has to have this name.
        """
        if template is None:
            entry.refuse("the key 'template' is missing", at_key=True)
            return None
        read = pods.read(template, container, self.draft, port, is_required=is_required)
        if read is None or count is None or count.value == 0:
            return None
        number = port_of(template, port) if port else None
        given = number.given(number.whole()) if number else Given(None, decided("the operator's default"))
        return Role(name, count, entry, template, read, given)

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
                message = "workingDir is not carried over: the roles start in different folders"
                self.draft.note(folder.origin, message, "the image's own is used: set WORKDIR in the image")

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
                    message = f"{name} becomes {show(mounted[name])}, where the claim is mounted"
                    self.draft.note(given.origin, message)
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
        holders = [*holders]
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
        policies: list[ForeignValue] = []
        for role in roles:
            for entry in (role.entry.child("restartPolicy"), role.template.at("spec", "restartPolicy")):
                text = entry.text() if entry else None
                if entry and text in ("Never", "OnFailure", "Always", "ExitCode"):
                    policies.append(entry)
                elif entry and text is not None:
                    entry.refuse(f"expected Never, OnFailure, Always or ExitCode, found {show(text)}")
        restarting = [entry for entry in policies if entry.value != "Never"]
        number = _RESTARTS if restarting else 0
        if limits:
            number = limits[0].whole() or 0
            if number > 100:
                limits[0].leave("becomes 100, the most that a spec allows")
                number = 100
        by_code = [entry for entry in restarting if entry.value == "ExitCode"]
        # A JobSet has one list of codes for all pods: if some pods restart after any code, no code is permanent.
        is_set = "roles" in self.overlay
        is_permanent = is_set and number > 0 and bool(by_code) and by_code == restarting
        for entry in restarting:
            codes = ", and exit codes 1 to 127 are retried too" if entry in by_code and not is_permanent else ""
            cause = "an exit code above 127" if is_permanent else "a failure"
            scope = "all pods start" if is_set else "the job starts"
            entry.leave(f"is {entry.value}: after {cause} {scope} again, at most {number} times{codes}")
        if sources := (*limits, *restarting, *policies):
            self.put(("retries",), number, sources[0].origin)
        if is_permanent:
            self.put(("permanent_exit_codes",), "1-127", by_code[0].origin)


def documents(text: bytes, name: str, kind: str) -> list[yamlio.Document]:
    """Return the documents of a YAML or JSON file, without empty ones. Raises SpecError if it is not valid."""
    found, problems = yamlio.load_all(text, name)
    if problems:
        raise invalid(name, kind, template(text, name, "Helm", "render it first: helm template") or problems)
    return [document for document in found if document.data is not None]


def described(data: Any) -> str:
    """Return the kind and the version of an object for a message."""
    if not isinstance(data, dict) or "kind" not in data:
        return "a document without a kind"
    return f"{show(data.get('kind'))} of {show(data.get('apiVersion'))}"


def expected(name: str, kind: str, message: str, found: list[yamlio.Document]) -> Exception:
    """Return the error that a file contains nothing of a kind."""
    shown = [described(document.data) for document in found] or ["an empty file"]
    message = f"{message}, found {', '.join(shown[:5])}"
    return invalid(name, kind, [found[0].problem((), message) if found else Problem(name, 1, 1, message)])


def port_of(pod_template: ForeignValue, name: str) -> ForeignValue | None:
    """Return the number of the first port of the pods that has a name."""
    containers = [item for item in pod_template.items("spec", "containers") if isinstance(item.value, dict)]
    ports = [port for container in containers for port in container.items("ports") if port.string("name") == name]
    return next((number for port in ports if (number := port.at("containerPort"))), None)


def put_names(draft: Draft, root: ForeignValue, prefix: str, longest: int, framework: tuple[str, str]) -> None:
    """Put the name, the title and the framework; report the rest of the metadata."""
    metadata = root.child("metadata")
    originals = [metadata.at(key) for key in ("name", "generateName")] if metadata else []
    original = next(filter(None, originals), None)
    text = (original.text() if original else None) or ""
    if original is None or not text:
        (metadata or root).refuse("the name is missing", "set metadata.name")
        text = prefix
    hint = f"names are in lower case, and at most {longest} long"
    draft.put_name(original, text, prefix, "no name", hint, longest)
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
