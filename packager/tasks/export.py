"""Package -> a template and a definition for a task service, from one rendered overlay.

The overlay is rendered twice: unchanged, and with opaque placeholders ("words") as the values of mlops.env. This shows
the places to which kustomize copies each value, where the template then has an expression.
"""

from __future__ import annotations

import itertools
import re
import secrets
from typing import TYPE_CHECKING, Literal

from packager.base import envfile, masking, yamlio
from packager.base.errors import RenderError, UsageError
from packager.base.problems import Problem
from packager.base.values import Value
from packager.configure.settings import Files
from packager.kubernetes.containers import ROOT
from packager.kubernetes.manifest import Manifest, dotted, listing, mapping
from packager.package import declared, layout
from packager.package.opened import chosen_overlays, opened
from packager.rendering import render
from packager.workloads import structures
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.base.process import Runner
    from packager.base.yamlio import Location
    from packager.kubernetes.objects import Object
    from packager.package.opened import Package

LONGEST_NAME = 54
"""The longest name of a template or a definition."""

_MARK = f"v{secrets.token_hex(6)}"
_WORD = re.compile(f"{_MARK}n([0-9]+)e")
_RELEASE = f"{_MARK}r"
"""The placeholders of a value of mlops.env, by its number, and of the name of the job."""

_SECRETS = "secrets"
"""The end of the name of the Secret that the service makes of the filled secrets."""

_TEXTS = ("data", "binaryData", "stringData")
"""The fields with the texts of a ConfigMap or a Secret, which never refer to objects."""

_ENDPOINTS = """
endpoints:
  - type: (Optional) event
    endpoint: (Optional:uri) Where changes of the job's status are sent
"""


class _Key(Value, frozen=True):
    """A key of mlops.env, or a secret of the package."""

    name: str
    default: str
    text: str  # the comment above it
    type: Literal["integer", "number", "boolean", "string", "secret"]
    is_required: bool = False
    is_fixed: bool = False  # it decides more than a variable or a mount path, such as the image: users do not set it


def export(
    package: Path, overlay: str | None, name: str | None, kubectl: str, runner: Runner
) -> tuple[dict[str, str], dict[str, str]]:
    """Return a template and a definition, as a task service takes them, whose jobs have the objects of an overlay."""
    with opened(package) as content:
        overlay = chosen_overlays(content, overlay)[0]
        title = declared.title(content) or f"The package {content.name}"
        name = name or content.name
        if len(name) > LONGEST_NAME:
            raise UsageError(f"{name} has more than {LONGEST_NAME} characters", hint="choose another one with --name")
        return _Export(content, overlay, kubectl, runner).files(name, f"{title} ({overlay})")


class _Export:
    """The parts of one overlay from which template and definition are written."""

    def __init__(self, package: Package, overlay: str, kubectl: str, runner: Runner) -> None:
        self._package = package
        self._overlay = overlay
        self._problems: list[Problem] = []
        sources = render.read(package, overlay)

        def rendered(changed: Package) -> list[Object]:
            output = render.kubectl(changed, overlay, render.read(changed, overlay), kubectl, runner).manifests
            documents, problems = yamlio.load_all(output.encode(), overlay, max_bytes=16 << 20)
            if problems:
                raise RenderError(f"{overlay} renders to invalid YAML", problems=problems)
            return [document.data for document in documents if isinstance(document.data, dict)]

        files, path = Files(package), layout.env(overlay)
        self._text = files.read(path)
        lines = list(envfile.lines(self._text))
        # A field that takes a number or a quantity takes no word: such keys keep their value.
        self._filled = [line.key for line in lines if line.key not in sources.numbers | sources.quantities]
        for number, key in enumerate(self._filled):
            files.assign(path, key, f"{_MARK}n{number}e")
        self._plain = rendered(package)
        workloads = [manifest for manifest in map(Manifest, self._plain) if structures.is_workload(manifest)]
        if all(kinds()[manifest.kind].serves for manifest in workloads):
            raise UsageError(f"{overlay} of {package.source} has no workload that ends, as a task does")
        marked = rendered(files.edited_package())
        self._places: dict[str, list[Location]] = {line.key: [] for line in lines}
        self._compare((), self._plain, marked)
        self._keys = [self._key(line) for line in lines if line.key in self._filled]
        self._keys += self._secrets()
        if self._problems:
            raise RenderError(f"{overlay} of {package.source} cannot become a template", problems=self._problems)
        names = _new_names(self._plain, package.name, overlay)
        names |= {label: _RELEASE for label in (package.name, f"{package.name}-{overlay}") if label not in names}
        # kustomize appends a digest of the content to some names
        names |= {Manifest(new).name: names[Manifest(old).name] for old, new in zip(self._plain, marked, strict=True)}
        self._objects = [_renamed(item, names) for item in marked]
        self._read_secrets()

    def _problem(self, message: str) -> None:
        self._problems.append(Problem(self._package.shown(layout.env(self._overlay)), 0, 0, message))

    def _compare(self, here: Location, plain: object, marked: object) -> None:
        """Record the places of words, and that words change only single values."""
        if isinstance(marked, str):
            keys = [self._filled[int(number)] for number in _WORD.findall(marked)]
            for key in keys:
                self._places[key].append(here)
            if keys and here[1:] != ("metadata", "name") and not isinstance(plain, str):
                self._problem(f"{keys[0]} is written into {dotted(here[1:])}, which takes other values than text")
        elif isinstance(marked, dict) and isinstance(plain, dict) and marked.keys() == plain.keys():
            for key, value in marked.items():
                self._compare((*here, key), plain[key], value)
        elif isinstance(marked, list) and isinstance(plain, list) and len(marked) == len(plain):
            for index, value in enumerate(marked):
                self._compare((*here, index), plain[index], value)
        elif marked != plain:
            self._problem(f"{dotted(here[1:])}: a value of mlops.env decides which objects or fields there are")

    def _key(self, line: envfile.Line) -> _Key:
        is_fixed = line.value == f"{ROOT}/{self._package.name}"  # the folder of the code
        is_fixed = is_fixed or any(self._decides(location) for location in self._places[line.key])
        text = _comment_on(self._text, line.key)
        if masking.is_secret(line.key):
            if line.value:
                self._problem(f"{line.key} has a value, which its name says is a secret: leave it empty")
            return _Key(line.key, "", text or "A secret", "secret")
        return _Key(line.key, line.value, text, _type(line.value), is_fixed=is_fixed)

    def _decides(self, location: Location) -> bool:
        """Whether a value at a place decides more than an environment variable, an argument or a mount path."""
        if self._plain[int(location[0])].get("kind") == "ConfigMap":
            return location[1] != "data"
        in_container = any(step in ("containers", "initContainers") for step in location)
        return not (in_container and {*location} & {"mountPath", "command", "args", "value"})

    def _variables(self, items: Sequence[Object]) -> Iterator[tuple[Object, Object]]:
        """Yield each container, and each of its variables that comes from a Secret of the package."""
        known = declared.secrets(self._package)
        for container in _containers(items):
            for variable in map(mapping, listing(container.get("env"))):
                reference = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
                if variable.get("name") in known and reference.get("key") == variable["name"]:
                    yield container, reference

    def _secrets(self) -> Iterator[_Key]:
        """Yield the secrets of the package that its pods read."""
        known = declared.secrets(self._package)
        required = {ref["key"]: ref.get("optional") is not True for _, ref in self._variables(self._plain)}
        for name in known.keys() - required.keys():
            self._problem(f"the site option secrets is off, and the package has the secret {name}: switch it on")
        for name, is_required in required.items():
            yield _Key(name, "", known[name] or "A secret", "secret", is_required)

    def _read_secrets(self) -> None:
        """Let the pods read filled secrets from the Secret of the service, also those of a ConfigMap."""
        where = f"{_RELEASE}-{_SECRETS}"
        for _, reference in self._variables(self._objects):
            reference |= {"name": where, "key": f"env.{reference['key']}"}
        of_env = [key.name for key in self._keys if key.type == "secret" and key.name in self._filled]
        for item in self._objects:
            data = mapping(item.get("data")) if item.get("kind") == "ConfigMap" else {}
            moved = [key for key in of_env if data.pop(key, None) is not None]
            for container in _containers(self._objects) if moved else ():
                sources = (mapping(mapping(source).get("configMapRef")) for source in listing(container.get("envFrom")))
                if any(source.get("name") == Manifest(item).name for source in sources):
                    references = ({"name": where, "key": f"env.{key}", "optional": True} for key in moved)
                    added = [{"name": str(ref["key"])[4:], "valueFrom": {"secretKeyRef": ref}} for ref in references]
                    container["env"] = [*listing(container.get("env")), *added]

    def files(self, name: str, description: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the template and the definition."""
        own = [key for key in self._keys if not key.is_fixed]
        fixed = {key.name: key.default for key in self._keys if key.is_fixed}
        described = {
            key.name: f"({'Required' if key.is_required else 'Optional'}"
            f"{'' if key.type == 'string' else f':{key.type}'}) {_sentence(key)}"
            for key in own
        }
        example = {key.name: "***" if key.type == "secret" else yamlio.scalar(key.default) for key in own}
        example = {key: value for key, value in example.items() if value != ""}
        template = {"name": name, "description": description, "template": self._template(own)}
        definition = {
            "name": name,
            "task_template_name": name,
            "description": description,
            "user_values_description": (yamlio.dump([{"env": described}]) if described else "") + _ENDPOINTS.lstrip(),
            "user_values_example": yamlio.dump([{"taskDef": name, **({"env": example} if example else {})}]),
            "system_values": yamlio.dump([{"fixed": fixed}]) if fixed else "",
        }
        return template, definition

    def _template(self, own: Sequence[_Key]) -> str:
        """Return the text of the template: the defaults of values, and the objects, the workload last."""
        lines = ["{% set filled = env if env is defined and env else {} %}"]
        for key in own:
            if key.type != "secret":
                value = f"filled[{key.name!r}]"
                unless = f"{value} is defined and {value} is not none"
                text = f"({value} if {unless} else {key.default!r}) ~ ''"
                text = f"({text}) | lower" if key.type == "boolean" else text
                lines.append(f"{{% set {_variable(key.name)} = {text} %}}")
        is_own = {key.name for key in own}

        def expression(match: re.Match[str]) -> str:
            key = self._filled[int(match[1])]
            return f"{{{{ {_variable(key) if key in is_own else f'fixed.{key}'} }}}}"

        text = yamlio.dump(sorted(self._objects, key=lambda item: structures.is_workload(Manifest(item))))
        text = re.sub(r"\{(?=[{%#]|" + _MARK + ")", "{{ '{' }}", text)
        text = _WORD.sub(expression, text).replace(_RELEASE, "{{ global.release }}")
        return "\n".join([*lines, text, ""])


def _variable(key: str) -> str:
    return f"env_{key}"


def _sentence(key: _Key) -> str:
    """Return the description of a key, with its default."""
    default = f"default is `{key.default}`" if key.default else ""
    return ", ".join(filter(None, (key.text.rstrip("."), default))) or "A variable"


def _type(default: str) -> Literal["integer", "number", "boolean", "string"]:
    value = yamlio.scalar(default)
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"


def _containers(items: Sequence[Object]) -> Iterator[Object]:
    for item in items:
        for pods in structures.pods(Manifest(item)):
            yield from (container for _, container in pods.containers())


def _new_names(objects: Sequence[Object], package: str, overlay: str) -> dict[str, str]:
    """Return the new name of each object: the release for the workload, and names that begin with it for the others."""
    names: dict[str, str] = {}
    for manifest in sorted(map(Manifest, objects), key=structures.is_workload, reverse=True):
        if manifest.name in names:
            continue
        role = manifest.name.removeprefix(f"{package}-").removesuffix(f"-{overlay}")
        candidates = (f"{_RELEASE}-{role}{number or ''}" for number in itertools.count())
        unused = next(name for name in candidates if name not in names.values())
        names[manifest.name] = _RELEASE if structures.is_workload(manifest) else unused
    return names


def _renamed(item: Object, names: Mapping[str, str]) -> Object:
    """Return an object with new names in its references, except in texts, commands and values of variables."""

    def referring(key: str, value: object) -> object:
        if isinstance(value, str):
            return names.get(value, value) if key != "value" else value
        if isinstance(value, dict):
            return {below: referring(below, part) for below, part in value.items()}
        if isinstance(value, list) and key not in ("command", "args"):
            return [referring("", part) for part in value]
        return value

    return {key: value if key in _TEXTS else referring(key, value) for key, value in item.items()}


def _comment_on(text: bytes, wanted: str) -> str:
    """Return the comment directly above a key of an env file, on one line."""
    comment: list[str] = []
    for line in map(str.strip, text.decode("utf-8", "replace").splitlines()):
        key, is_assignment, _ = line.partition("=")
        if is_assignment and key == wanted:
            prose = " ".join(" ".join(comment).split())
            return "".join(letter for letter in prose if letter.isprintable())[:500]
        comment = [*comment, line.lstrip("# ")] if line.startswith("#") else []
    return ""


def write(folder: Path, template: dict[str, str], definition: dict[str, str]) -> tuple[Path, Path]:
    """Write both as YAML into new files of a folder, which may be a new one, and return their paths.

    Raises UsageError if one of the files exists.
    """
    paths = (folder / f"{template['name']}.template.yaml", folder / f"{definition['name']}.definition.yaml")
    for path in paths:
        if path.exists():
            raise UsageError(f"{path} exists", hint="choose another folder or --name")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, (template, definition), strict=True):
        path.write_text(yamlio.dump([content]), "utf-8")
    return paths
