"""Puts the roles of an operator's job into an overlay: programs, variables, policies, names.

Tests: modelspec/importers/test_mxjob.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.base.values import Value
from packager.modelspec.importers import pods
from packager.modelspec.importers.draft import named, one_line
from packager.modelspec.importers.source import (
    ForeignValue,
    Given,
    by_option,
    invalid,
    template,
)
from packager.workloads.jobset.rendezvous import RENDEZVOUS
from packager.workloads.launchers import reserved_by
from packager.workloads.program import references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.pods import Container

_BY_THE_SERVER = ("name", "generateName", "creationTimestamp", "uid", "resourceVersion", "generation", "managedFields")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_COMPUTING_OPTIONS = ("shared-memory", "host-network")
_INT32 = (1 << 31) - 1
_RESTARTS = 3
_SHORTEST_TTL = 60
_POLICIES = {
    "cleanPodPolicy": ("is not carried over: a finished set deletes pods that still run", None),
    "suspend": ("is not carried over: a deployed package runs", "the option queue holds it back"),
    "RuntimeId": ("is not carried over: names need no random part", None),
    "successPolicy": ("is not carried over: all workers have to end well", None),
}


class Role(Value, frozen=True):
    """The pods of one role."""

    name: str
    count: Given
    entry: ForeignValue
    template: ForeignValue
    container: Container
    port: Given


def documents(text: bytes, name: str, kind: str) -> list[yamlio.Document]:
    """Return the documents of a YAML or JSON file, without empty ones. Raises SpecError if it is not valid."""
    found, problems = yamlio.load_all(text, name)
    if problems:
        rendered = list(template(text, name, "Helm", "render it first: helm template"))
        raise invalid(name, kind, rendered or problems)
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


def port_of(template: ForeignValue, names: Iterable[str]) -> ForeignValue | None:
    """Return the number of the first port of the pods that has one of the names."""
    for item in template.items_at("spec", "containers"):
        for port in item.items_at("ports") if isinstance(item.value, dict) else ():
            if port.string("name") in names and (number := port.at("containerPort")):
                return number
    return None


def put_names(draft: Draft, root: ForeignValue, prefix: str, longest: int, framework: tuple[str, str]) -> None:
    """Put the name, the title and the framework; report the rest of the metadata."""
    metadata = root.child("metadata")
    originals = [metadata.at(key) for key in ("name", "generateName")] if metadata else []
    original = next((entry for entry in originals if entry), None)
    text = (original.text() if original else None) or ""
    if original is None or not text:
        (metadata or root).refuse("the name is missing", "set metadata.name")
        text = prefix
    name = named(text, prefix=prefix, longest=longest)
    origin = original.origin if original else "no name"
    draft.put(("name",), name, origin)
    if original and name != text:
        message = f"becomes {name!r}, found {show(text)}"
        original.leave(message, f"names are in lower case, and at most {longest} long")
    draft.put(("title",), one_line(text) or name, origin)
    draft.put(("framework",), *framework)
    for entry in metadata.children() if metadata else ():
        if entry.key == "namespace":
            entry.leave("is not in a package", "mlpack deploy -n NAMESPACE")
        elif entry.key in _BY_THE_SERVER:
            entry.done()
        elif entry.value and not (isinstance(entry.value, dict) and [*entry.value] == [_LAST_APPLIED]):
            entry.leave(hint="a kustomization of your own above the overlay can add it")


def put_images(draft: Draft, place: Location, roles: list[Role], image: str | None) -> None:
    """Put the image of the last role, which computes; a role with another image gets its own."""
    if image is not None:
        for one in roles:
            if one.container.image:
                one.container.image.leave("is replaced by --image")
        draft.put_image(image, by_option("--image"))
        return
    for one in roles:
        if one.container.image is None:
            one.template.refuse("the container has no image", "--image REPOSITORY:TAG sets one")
    entries = {one.name: one.container.image for one in roles if one.container.image and one.container.image.text()}
    last = next(reversed(entries.values()), None)
    if last is None:
        return
    main = next(entry for entry in entries.values() if entry.value == last.value)
    draft.put_image(str(main.value), main.origin)
    for role, entry in entries.items():
        if entry.value != main.value:
            draft.put_image(str(entry.value), entry.origin, (*place, "roles", role, "image"))


def put_directory(draft: Draft, place: Location, roles: list[Role]) -> None:
    """Put the working directory, if it is the same for all roles."""
    folders = {_value(one.container.directory) for one in roles}
    for one in roles:
        given = one.container.directory
        if given and len(folders) == 1:
            draft.put((*place, "workdir"), given.value, given.origin)
        elif given:
            hint = "the image's own is used: set WORKDIR in the image"
            draft.note(given.origin, "workingDir is not carried over: the roles start in different folders", hint)


def put_gpus(draft: Draft, place: Location, way: str | None, roles: list[Role]) -> None:
    """Note the option for GPUs, of which a site has one number for all pods, and put `gpu` of roles.

    The key `gpu` of a role decides about GPUs, shared memory and the node's network together. If some roles request
    GPUs, these roles get all three.
    """
    asked = [gpus for one in roles for gpus in one.container.gpus]
    for gpus in asked:
        if (gpus.count, gpus.vendor) == (asked[-1].count, asked[-1].vendor):
            pods.put_gpus(draft, [gpus])
        else:
            gpus.entry.leave(f"becomes {asked[-1].count} of {asked[-1].vendor}: all pods with GPUs get the same")
    options = {one.name: [key for key in one.container.options if key in _COMPUTING_OPTIONS] for one in roles}
    needing = {one.name for one in roles if (one.container.gpus if asked else options[one.name])}
    if way is None or not needing:
        return
    computing = RENDEZVOUS[way].computes
    for one in roles:
        computes, needs = not computing or one.name in computing, one.name in needing
        if computes and not needs:
            reason = f"it asks for no {'GPUs' if asked else 'such options'}"
            draft.put((*place, "roles", one.name, "gpu"), False, reason)
        elif needs and not computes:
            asking = one.container.gpus[0].entry if one.container.gpus else one.entry
            draft.put((*place, "roles", one.name, "gpu"), True, asking.origin)
        if not needs and options[one.name]:
            message = f"{one.name} does not get the option {' or '.join(options[one.name])}"
            problem = one.entry.problem(message, "gpu: true of the role gives it, and GPUs", at_key=True)
            draft.ledger.findings.append(problem)


def put_environments(draft: Draft, place: Location, roles: list[Role], reserved: Callable[[str], str | None]) -> None:
    """Put the variables that all roles share into the overlay, and the others into their roles."""
    kept: dict[str, dict[str, Given]] = {one.name: {} for one in roles}
    for one in roles:
        for name, given in one.container.environment.items():
            secret = "another role reads it from a Secret" if name in draft.data.get("secrets", {}) else None
            if reason := secret or reserved(name):
                draft.note(given.origin, f"{name} is not carried over: {reason}")
            else:
                kept[one.name][name] = given
    mounted = draft.data.get("environment", {})
    common = {
        name
        for name, given in kept[roles[0].name].items()
        if all(name in values and values[name].value == given.value for values in kept.values())
    }
    for role, values in kept.items():
        for name, given in values.items():
            if name in mounted:
                if given.value != mounted[name]:
                    draft.note(given.origin, f"{name} becomes {show(mounted[name])}, where the claim is mounted")
            elif name not in common:
                draft.put((*place, "roles", role, "environment", name), given.value, given.origin)
            elif role == roles[0].name:
                draft.put((*place, "environment", name), given.value, given.origin)


def put_programs(draft: Draft, place: Location, roles: list[Role], names: Iterable[str] | None = None) -> None:
    """Put each role's number of pods, resources and program; a program that all roles share into the overlay.

    References to variables that are neither the job's nor among `names` are escaped; None if any variable may exist.
    """
    first = roles[0].container
    known = {*draft.data["overlays"][place[1]].get("environment", ()), *draft.data.get("secrets", ())}
    programs = [(_value(one.container.command), _value(one.container.args)) for one in roles]
    foreign = {name for part in programs[0] for word in part or () for name in references(word)} - known
    is_shared = all(program == programs[0] for program in programs) and not foreign
    if is_shared and programs[0] != (None, None):
        put_program(draft, place, first, None)
    for one in roles:
        below: Location = (*place, "roles", one.name)
        draft.put((*below, "replicas"), one.count.value, one.count.origin)
        if not is_shared or programs[0] == (None, None):
            of_role = {*known, *one.container.environment, *names} if names is not None else None
            put_program(draft, below, one.container, of_role)
        pods.put_resources(draft, below, one.container.resources)


def put_program(draft: Draft, place: Location, container: Container, known: Iterable[str] | None) -> None:
    """Put command and args, with references to variables not in `known` escaped; None if any variable may exist."""
    for key, given in (("command", container.command), ("args", container.args)):
        if given is not None:
            words = given.value if known is None else [pods.escaped(word, known) for word in given.value]
            draft.put((*place, key), words, given.origin)
    if "roles" in place and container.command is None and container.args is None:
        draft.put((*place, "command"), [], "none: the image's own entrypoint")


def put_policies(draft: Draft, place: Location, holders: list[ForeignValue], roles: list[Role]) -> None:
    """Put restarts, limits of time, priority and queue into an overlay, or report them."""
    _put_retries(draft, place, holders, roles)
    _put_scheduling(draft, place, holders, roles)
    for holder in holders:
        for key, low, name in (("activeDeadlineSeconds", 1, "deadline"), ("ttlSecondsAfterFinished", 0, "ttl")):
            limit = holder.child(key)
            number = limit.whole(low, _INT32) if limit else None
            if limit and number is not None and name == "ttl" and number < _SHORTEST_TTL:
                limit.leave(f"becomes {_SHORTEST_TTL} seconds, found {number}", "sooner, no one would see the result")
                number = _SHORTEST_TTL
            if limit and number is not None:
                draft.put((*place, name), number, limit.origin)
        for key, (message, hint) in _POLICIES.items():
            if entry := holder.child(key):
                entry.leave(message, hint)


def _put_scheduling(draft: Draft, place: Location, holders: list[ForeignValue], roles: list[Role]) -> None:
    """Put the priority, if it is the same for all pods, and the queue."""
    scheduling = [policy for holder in holders if (policy := holder.child("schedulingPolicy"))]
    own = [one.template.at("spec", "priorityClassName") for one in roles]
    of_all = [policy.at("priorityClass") for policy in scheduling]
    entries = [entry for entry in (*own, *of_all) if entry is not None]
    if len({entry.text() for entry in entries}) == 1 and (any(of_all) or None not in own):
        draft.put((*place, "priority_class"), entries[0].text(), entries[0].origin)
    else:
        for entry in entries:
            entry.leave("is not carried over: all pods of a workload have the same")
    for policy in scheduling:
        if (queue := policy.at("queue")) and (text := queue.text()):
            queue.leave("is the option queue of a site", draft.option("queue", QUEUE=text))
        for entry in policy.children():
            if entry.key not in ("queue", "priorityClass"):
                entry.leave("is not carried over: Kueue starts all pods together")


def _put_retries(draft: Draft, place: Location, holders: list[ForeignValue], roles: list[Role]) -> None:
    is_set = "roles" in draft.data["overlays"][place[1]]
    limits = [limit for holder in holders if (limit := holder.child("backoffLimit"))]
    policies: list[ForeignValue] = []
    for one in roles:
        for entry in (one.entry.child("restartPolicy"), one.template.at("spec", "restartPolicy")):
            text = entry.text() if entry else None
            if entry and text in ("Never", "OnFailure", "Always", "ExitCode"):
                policies.append(entry)
            elif entry and text is not None:
                entry.refuse(f"expected Never, OnFailure, Always or ExitCode, found {show(text)}")
    restarting = [entry for entry in policies if entry.value != "Never"]
    origins = [entry.origin for entry in (*restarting, *policies)]
    number = _RESTARTS if restarting else 0
    if limits:
        given = limits[0].whole(0, _INT32) or 0
        if given > 100:
            limits[0].leave("becomes 100, the most that a spec allows")
        number, origins = min(given, 100), [limits[0].origin]
    by_code = [entry for entry in restarting if entry.value == "ExitCode"]
    # A JobSet has one list of codes for all pods: if some pods restart after any code, no code is permanent.
    is_permanent = is_set and number > 0 and bool(by_code) and by_code == restarting
    for entry in restarting:
        codes = ", and exit codes 1 to 127 are retried too" if entry in by_code and not is_permanent else ""
        cause = "an exit code above 127" if is_permanent else "a failure"
        scope = "all pods start" if is_set else "the job starts"
        entry.leave(f"is {entry.value}: after {cause} {scope} again, at most {number} times{codes}")
    if origins:
        draft.put((*place, "retries"), number, origins[0])
    if is_permanent:
        draft.put((*place, "permanent_exit_codes"), "1-127", by_code[0].origin)


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
        variable, _, of_variable = value.partition("=")
        if name in ("np", "n"):
            if value.isdigit():
                draft.put((*place, "processes"), int(value), entry.origin)
            continue
        if name == "mca" and rest:
            variable, of_variable = f"OMPI_MCA_{value}", rest.pop(0)
        elif name not in _OF_RANKS or not of_variable:
            if name not in ("x", "bind-to"):
                entry.note(f"of mpirun, {option} {value} is not carried over", "set it by a variable, if MPI needs it")
            continue
        is_secret = "it is read from a Secret" if variable in draft.data.get("secrets", ()) else None
        if complaint := is_secret or reserved_by(variable, "mpi") or pods.complaint_about(variable, of_variable):
            entry.note(f"of mpirun, {variable} is not carried over: {complaint}")
        else:
            draft.put((*place, "environment", variable), of_variable, entry.origin)
    return rest


def _value(given: Given | None) -> Any:
    return None if given is None else given.value
