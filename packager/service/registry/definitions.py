"""Checks definitions at registration, and renders the objects of a job from filled values."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from packager.base.names import is_label_value
from packager.base.problems import show
from packager.base.values import Value, replace
from packager.kubernetes.manifest import mapping
from packager.kubernetes.podsecurity import Level
from packager.package.options import BY_NAME
from packager.service.complaints import Complaint, of_fault, of_problem
from packager.service.registry import description, injections, policy, template_values
from packager.service.registry.bodies import DefinitionBody, as_flag
from packager.service.registry.description import Group, Items
from packager.service.registry.omissions import omissions
from packager.service.registry.packages import env, filling
from packager.service.registry.packages.content import facts_of
from packager.verify import credentials, security

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.faults import Fault
    from packager.base.problems import Problem
    from packager.base.values import Json
    from packager.service.registry.packages.content import PackageObjects, PackageOrigin
    from packager.service.registry.policy import Accepted, Site
    from packager.service.registry.refusals import PolicyProblem
    from packager.service.registry.rendering import FilledTemplate, Renderer

_TRIAL = "trial-000000"
"""The release for rendering the example of a definition."""

_TRIAL_OF_PACKAGE = "a-trial-with-the-longest-name-000000"
"""The same for a package: as long as a release may be, since some kinds append more to the names of pods."""

_OPTIONAL_HINT = "let the template do without it (`is defined`, `or`, `default`), or describe it as (Required)"


class Definition(Value, frozen=True):
    """A task definition, with its texts parsed.

    Attributes:
        body: The registered body.
        described: The description of the values that users fill in.
        example: Values that satisfy the description.
        system: The values that users cannot set.
        origin: The package with the objects; None for a template.
    """

    body: DefinitionBody
    described: Group
    example: Mapping[str, Json]
    system: Mapping[str, Json]
    origin: PackageOrigin | None = None

    @property
    def secret_keys(self) -> frozenset[str]:
        """The keys below `env` whose values are secrets."""
        return frozenset(key.name for key in self.origin.keys if key.is_secret) if self.origin else frozenset()

    @property
    def longest_release(self) -> int:
        """The maximum length of a job's name; shorter for packages, some of whose kinds append more to pod names."""
        return len(_TRIAL_OF_PACKAGE) if self.origin else template_values.LONGEST_RELEASE

    @property
    def reserved(self) -> dict[str, str]:
        """The reason for each top-level key that users may not set."""
        if self.origin:
            return {}
        keys = dict.fromkeys(
            (template_values.ALWAYS_SYSTEM, *self.system), "is set by the definition, in system_values"
        )
        return {**keys, **{key: template_values.RESERVED[key] for key in ("global", "configs")}}

    @property
    def json_schema(self) -> dict[str, Json]:
        """The JSON Schema of filled values."""
        return description.json_schema(self.described, self.example, self.body.name)


class Request(Value, frozen=True):
    """Filled values, with the creator and the release.

    Attributes:
        filled: The filled values.
        creator: The creator of the job.
        release: The name of the job.
    """

    filled: Mapping[str, Json]
    creator: str
    release: str


def final_name(body: DefinitionBody) -> str:
    """Return the name of a definition, with eight hexadecimal digits if `append_uuid` is set."""
    return f"{body.name}-{secrets.token_hex(4)}" if as_flag(body.append_uuid) else body.name


def read(body: DefinitionBody, origin: PackageOrigin | None = None) -> tuple[Definition | None, list[Complaint]]:
    """Return a parsed definition, or None and all complaints that do not depend on the template.

    Args:
        body: The registered body.
        origin: The package of the definition; None for a template, or if the package could not be read yet.
    """
    described, problems = description.read(body.user_values_description or "")
    complaints = [of_problem(problem, "user_values_description") for problem in problems]
    if body.package is None:
        complaints += _missing(body)
    elif body.task_template_name is not None:
        complaints.append(Complaint("/package", "expected either package or task_template_name"))
    texts = {"user_values_example": body.user_values_example or "", "system_values": body.system_values}
    read_texts: dict[str, Mapping[str, Json]] = {}
    for key, text in texts.items():
        document, problems = description.read_mapping(text, key)
        complaints += [of_problem(problem, key) for problem in problems]
        read_texts[key] = mapping(document.data)
    if as_flag(body.append_uuid) is None:
        complaints.append(Complaint("/append_uuid", f"expected 0, 1, true or false, found {show(body.append_uuid)}"))
    for key, value in {"application": body.application, "creator": body.creator}.items():
        if not is_label_value(value):
            message = f"expected a name such as nightly, found {show(value)}"
            complaints.append(Complaint(f"/{key}", message, template_values.LABEL_FORM))
    complaints += [
        Complaint("/system_values", f"the key {key!r} cannot be set here: it {reason}")
        for key, reason in template_values.RESERVED.items()
        if key in read_texts["system_values"]
    ]
    if described is None or complaints or (body.package and not origin):
        return None, complaints
    definition = Definition(body, described, read_texts["user_values_example"], read_texts["system_values"], origin)
    if origin:
        definition, complaints = _of_package(definition, origin)
    else:
        complaints += _described_but_reserved(definition)
    if complaints:
        return None, complaints
    complaints += [
        Complaint("/user_values_example", f"{_place(fault.location)}: {fault.message}", fault.hint)
        for fault in _faults(definition, definition.example)
    ]
    return (None, complaints) if complaints else (definition, [])


def _of_package(definition: Definition, origin: PackageOrigin) -> tuple[Definition, list[Complaint]]:
    """Return a definition with description and example completed from its package, and the complaints."""
    body, example = definition.body, definition.example
    complaints = list(env.system_complaints(definition.system, origin))
    given = definition.described if body.user_values_description else None
    described, problems = env.described(origin, mapping(definition.system), given)
    if not body.user_values_example:
        example = env.example(body.name, origin, described)
    complaints += problems
    complaints += [
        Complaint("/user_values_example", f"env.{key} is a secret: expected {template_values.MASK}")
        for key in definition.secret_keys
        if mapping(example.get("env")).get(key) not in (None, template_values.MASK)
    ]
    return replace(definition, described=described, example=example), complaints


def _missing(body: DefinitionBody) -> Iterator[Complaint]:
    if body.task_template_name is None:
        yield Complaint("/task_template_name", "is missing: the name of a template; or name a package")
    for key in ("user_values_description", "user_values_example"):
        if getattr(body, key) is None:
            yield Complaint(f"/{key}", "is missing")


def _faults(definition: Definition, filled: Mapping[str, Json]) -> list[Fault]:
    """Return all faults of filled values that are found without rendering."""
    faults = description.faults(definition.described, filled, reserved=definition.reserved)
    if definition.origin:
        faults = [env.unknown_key(fault, definition.origin, definition.system) for fault in faults]
    places = {fault.location for fault in faults}
    others = [
        *template_values.label_faults(filled),
        *(env.faults(filled, definition.origin) if definition.origin else ()),
    ]
    return [*faults, *(fault for fault in others if fault.location not in places)]


def _described_but_reserved(definition: Definition) -> Iterator[Complaint]:
    for key, entry in definition.described.entries:
        if reason := definition.reserved.get(key):
            yield Complaint("/user_values_description", f"users cannot fill in {key!r}: it {reason}")
        if key == "project":
            yield Complaint("/user_values_description", "users cannot fill in 'project': it says where a job belongs")
        if key == "endpoints" and not isinstance(entry, Items):
            yield Complaint("/user_values_description", "endpoints: expected a list of the kinds of endpoints")
        if key == "process" and not isinstance(entry, Group | description.FreeMapping):
            yield Complaint("/user_values_description", "process: expected a mapping")


def _place(location: tuple[str | int, ...]) -> str:
    return ".".join(map(str, location)) or "the example"


def trial(
    definition: Definition, source: str | PackageObjects, renderer: Renderer, site: Site
) -> tuple[Accepted, list[Complaint]]:
    """Render the example of a definition, and return the objects and the complaints.

    A template is also rendered without the optional values of the example, which users may leave out.
    """
    creator = str(definition.example.get("creator") or definition.body.creator or "trial")
    release = _TRIAL_OF_PACKAGE if definition.origin else _TRIAL
    request = Request(definition.example, creator, release)
    accepted, complaints = objects(definition, source, request, renderer, site)
    if definition.origin:
        accepted = replace(accepted, remarks=tuple(env.remarks(definition.origin, definition.system)))
    if complaints or definition.origin:
        return accepted, [replace(item, detail=f"with the example filled in: {item.detail}") for item in complaints]
    assert isinstance(source, str)

    def rendered(filled: Mapping[str, Json]) -> FilledTemplate:
        return _rendered(definition, source, replace(request, filled=filled), renderer)

    accepted = replace(accepted, remarks=tuple(injections.warnings(definition.described, request.filled, rendered)))
    return accepted, list(_without_optional(definition, source, request, renderer, site))


def _without_optional(
    definition: Definition, source: str | PackageObjects, request: Request, renderer: Renderer, site: Site
) -> Iterator[Complaint]:
    """Yield the complaints about renderings without optional values of the example, each message once."""
    details: set[str] = set()
    for omitted, filled in omissions(definition.described, request.filled):
        for item in objects(definition, source, replace(request, filled=filled), renderer, site)[1]:
            if item.detail not in details:
                details.add(item.detail)
                yield Complaint("", f"with {omitted}: {item.detail}", item.hint or _OPTIONAL_HINT)


def value_complaints(definition: Definition, filled: Mapping[str, Json]) -> list[Complaint]:
    """Return all complaints about filled values that are found without rendering."""
    return [of_fault(fault) for fault in _faults(definition, filled)]


def objects(
    definition: Definition, source: str | PackageObjects, request: Request, renderer: Renderer, site: Site
) -> tuple[Accepted, list[Complaint]]:
    """Return the objects of a job; without objects, the complaints.

    Args:
        definition: The definition.
        source: The text of the template, or the objects of the package.
        request: The filled values, without faults.
        renderer: Renders templates.
        site: The settings of the administrator.
    """
    filled, body = request.filled, definition.body
    application = str(filled.get("name") or body.application or "")
    if not isinstance(source, str):
        return _objects_of_package(definition, source, request, body.application or application, site)
    rendered = _rendered(definition, source, request, renderer)
    if rendered.problems:
        return policy.Accepted(), [_of_template(problem) for problem in rendered.problems]
    accepted = policy.accept(rendered.objects, request.release, body.application or application, site)
    return accepted, [_refused(refusal) for refusal in accepted.problems]


def _rendered(definition: Definition, template: str, request: Request, renderer: Renderer) -> FilledTemplate:
    names = template_values.Names(request.release, definition.body.name, definition.body.application, request.creator)
    return renderer.render(template, template_values.template_values(request.filled, definition.system, names))


def _objects_of_package(
    definition: Definition, package: PackageObjects, request: Request, application: str, site: Site
) -> tuple[Accepted, list[Complaint]]:
    assert definition.origin is not None
    texts, own_secrets = env.split(definition.origin, definition.system, request.filled)
    try:
        rendered = filling.filled(package, texts, own_secrets, request.release)
    except filling.TooLongError as error:
        return policy.Accepted(), [Complaint("", f"package {definition.origin.name}: {error}")]
    accepted = policy.accept(rendered, request.release, application, site, facts_of(definition.origin, package))
    return accepted, [_refused_of_package(refusal, definition.origin, site) for refusal in accepted.problems]


def _refused(refusal: PolicyProblem) -> Complaint:
    return Complaint("", refusal.message, refusal.hint)


def _refused_of_package(refusal: PolicyProblem, origin: PackageOrigin, site: Site) -> Complaint:
    """Return the complaint about an object of a package, with the site option that causes it, if it is known."""
    hint = refusal.hint
    if refusal.kind == security.LEVEL:
        order = list(Level)
        known = [BY_NAME[name] for name in origin.options if name in BY_NAME]  # without options of the package itself
        over = [option.name for option in known if order.index(option.level) > order.index(site.level)]
        fix = "use the option pvc for storage, or a project whose pod_security allows it"
        hint = f"the option{'s' if len(over) > 1 else ''} {', '.join(over)} of the package: {fix}" if over else fix
    elif refusal.kind == credentials.ACCOUNT:
        hint = f"leave out the option service-account; or {refusal.hint}"
    return Complaint("", f"package {origin.name}, {origin.overlay}: {refusal.message}", hint)


def _of_template(problem: Problem) -> Complaint:
    place = f"{problem.file}, line {problem.line}: " if problem.line else f"{problem.file}: "
    return Complaint("", place + problem.message, problem.hint)
