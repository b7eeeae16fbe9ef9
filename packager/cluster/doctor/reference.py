"""Checks that the claims and other objects of pods exist, and that no name is taken. Tests: cli/test_doctor.py."""

from __future__ import annotations

import json
from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING, Any

from packager.base.errors import DeniedError, MissingNamespaceError, NotEvaluatedError, NotServedError
from packager.cluster import apply as deploy
from packager.cluster.apply import DeployState
from packager.cluster.claims import is_default_class
from packager.cluster.differences import object_changes
from packager.cluster.doctor.admission import reported
from packager.cluster.doctor.case import fails, note, ok
from packager.cluster.labels import DEPLOYED_BY
from packager.cluster.ownership import owner
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import annotation, name, owners, shown, status, uid
from packager.package.options import SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.cluster.manifests import Manifests
    from packager.kubernetes.objects import Object

_FROM = {"configMapRef": "ConfigMap", "configMapKeyRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret"}
_PULL = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_OTHER_NAME_HINT = "use another namespace (-n), or another nameSuffix in the overlay's kustomization.yaml"
_SHARED = {"ReadWriteMany", "ReadOnlyMany"}


def claims(case: Case) -> Iterator[CheckResult]:
    """Check that every claim exists, is bound or will be, and can be mounted by all pods that use it."""
    users: Counter[str] = Counter()
    shared: set[str] = set()
    for demand in case.demands:
        volumes = [mapping(volume.get("persistentVolumeClaim")) for volume in listing(demand.spec.get("volumes"))]
        mounted = Counter(str(volume["claimName"]) for volume in volumes if volume.get("claimName"))
        users.update(dict.fromkeys(mounted, demand.count))
        shared.update(claim for claim, times in mounted.items() if times > 1)
    for claim, count in users.items():
        if claim in shared:
            message = f"{claim} is several volumes of a pod, which nodes before Kubernetes 1.35 do not start"
            yield note("claims", message, "kubectl get nodes")
        brought = case.overlay.named("PersistentVolumeClaim", claim)
        live_claim = brought.data if brought else case.kubectl.get(f"persistentvolumeclaims/{claim}")
        if live_claim is None:
            fix = case.creating.get(claim, "kubectl get pvc")
            yield fails("claims", f"claim {claim} not found in {case.namespace}", f"{fix} {case.namespace_flag}")
            continue
        modes = set(listing(live_claim["spec"].get("accessModes")))
        if count > 1 and not modes & _SHARED and not (modes == {"ReadWriteOnce"} and _has_one_node(case)):
            message = f"{claim} is {', '.join(sorted(modes))}, and {count} pods mount it: they must all run on one node"
            yield fails("claims", message, f"kubectl describe pvc {quote(claim)} {case.namespace_flag}")
        elif trouble := _binding_problem(case, live_claim, brought=brought is not None):
            yield fails("claims", f"{claim} {trouble}", f"kubectl describe pvc {quote(claim)} {case.namespace_flag}")
        else:
            yield ok("claims", f"{claim}: {', '.join(sorted(modes))}")


def references(case: Case) -> Iterator[CheckResult]:
    """Check that every Secret, ConfigMap and service account of the pods is in the package or exists."""
    users: dict[tuple[str, str], str] = {}
    for demand in case.demands:
        users = dict.fromkeys(_named_objects(demand.spec), demand.name) | users
    absent = 0
    keys = _secret_keys(case)
    for (kind, named), who in users.items():
        if not case.overlay.named(kind, named):
            missing = _missing_reference(case, kind, named, who, keys.get(named, set()) if kind == "Secret" else set())
            absent += missing is not None
            yield from [missing] if missing else []
    for secret in _pull_secrets(case):
        item = case.kubectl.get(f"secrets/{secret}")
        if item is None:
            absent += 1
            message = f"secret {secret} for pulling images not found"
            yield fails("references", message, _create_command(case, "pull", secret))
        elif item.get("type") not in _PULL:
            absent += 1
            message = f"the secret {secret} is of the type {item.get('type')}, which cannot be used to pull images"
            yield fails("references", message, _create_command(case, "pull", secret))
    if not absent:
        yield ok("references", "the Secrets, ConfigMaps and service accounts of the pods exist or are in the package")


def names(case: Case) -> Iterator[CheckResult]:
    """Check that the names of the applied objects, and of those that operators create for them, are free."""
    yield from dict.fromkeys(finding for one in case.manifests.per_workload for finding in _name_results(case, one))


def _name_results(case: Case, manifests: Manifests) -> Iterator[CheckResult]:
    situation = deploy.situation(manifests, case.live, case.plan.objects)
    foreign = [item for item in case.live.values() if not case.identity.owns(item)]
    foreign += _foreign_children(case, manifests, situation.live)
    for item in foreign:
        yield fails(
            "names",
            f"{shown(item)} already exists and does not belong to this package ({owner(item)})",
            _OTHER_NAME_HINT,
        )
    if situation.live in foreign:
        return
    author = f", deployed by {situation.deployed_by}" if situation.deployed_by else ""
    match situation.state:
        case DeployState.ENDED | DeployState.CHANGED | DeployState.GOING:
            states = {
                DeployState.ENDED: "has already run",
                DeployState.CHANGED: "already exists with a different spec",
                DeployState.GOING: "is being deleted",
            }
            message = f"{manifests.name} {states[situation.state]}{author}"
            yield fails("names", message, _removal_hint(case, manifests, situation.live))
        case DeployState.OUTDATED:
            yield ok("names", f"{manifests.name} already exists{author}, and accepts the changes")
        case DeployState.SAME:
            how = "as the cluster's policies have changed it" if situation.differences else "and is up to date"
            yield ok("names", f"{manifests.name} already exists{author}, {how}")
        case DeployState.ABSENT if not foreign:
            yield ok("names", "no conflicting objects")


def dry_run(case: Case) -> Iterator[CheckResult]:
    """Check with a dry run that the server accepts every object, and report the changes that its policies make."""
    if (error := case.plan.error) is None:
        yield ok("apply", f"the server accepts all {len(case.manifests.objects)} objects (dry run)")
        sent = [item for item in json.loads(case.stamped)["items"] if item["kind"] != "Pod"]  # tried as a pod
        yield from reported(case, "apply", object_changes(sent, case.plan.objects))
        return
    if isinstance(error, NotEvaluatedError):
        raise error
    is_taken = not all(case.identity.owns(item) for item in case.live.values())
    is_reported_elsewhere = is_taken or isinstance(error, MissingNamespaceError | NotServedError)
    if not is_reported_elsewhere and not (isinstance(error, DeniedError) and error.verb == "patch"):
        yield fails("apply", str(error), error.hint)


def _binding_problem(case: Case, claim: Object, *, brought: bool) -> str | None:
    """Return why the claim will not be bound; None if it is bound, or will be once a pod uses it."""
    if not brought and status(claim).get("phase") == "Bound":
        return None
    if status(claim).get("phase") == "Lost":
        return "has lost its volume"
    if claim["spec"].get("volumeName"):
        return None if brought else "waits for its volume"
    classes = case.kubectl.items("storageclasses")
    class_name = claim["spec"].get("storageClassName")
    if class_name is None:
        storage_class = next(filter(is_default_class, classes), None)
        if storage_class is None:
            return (
                None if _has_volume(case, claim, "") else "names no storage class, and the cluster has no default one"
            )
    else:
        storage_class = next((entry for entry in classes if name(entry) == class_name), None)
        if storage_class is None:
            return (
                None
                if _has_volume(case, claim, class_name)
                else f"refers to the storage class {class_name!r}, which does not exist"
            )
    waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    return None if brought or waits else "is not bound yet"


def _has_one_node(case: Case) -> bool:
    """Whether all pods are on the only node of the cluster; false if the user may not list nodes."""
    try:
        return len(case.kubectl.items("nodes")) == 1
    except DeniedError:
        return False


def _has_volume(case: Case, claim: Object, storage_class: str) -> bool:
    """Whether a manually created volume exists that the claim may be bound to."""
    volumes = case.kubectl.items("persistentvolumes")
    modes = set(claim["spec"].get("accessModes") or ())
    return any(
        status(volume).get("phase") == "Available"
        and (volume["spec"].get("storageClassName") or "") == storage_class
        and modes <= set(volume["spec"].get("accessModes") or ())
        for volume in volumes
    )


def _named_objects(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of each object that the pod cannot start without."""
    if account := spec.get("serviceAccountName"):
        yield "ServiceAccount", str(account)
    for volume in listing(spec.get("volumes")):
        sources = [volume, *listing(mapping(volume.get("projected")).get("sources"))]
        for source in sources:
            for kind, field, key in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
                reference = mapping(source.get(field))
                named = reference.get(key) or reference.get("name")
                if named and not reference.get("optional"):
                    yield kind, str(named)
    for container in [*listing(spec.get("initContainers")), *listing(spec.get("containers"))]:
        sources = [*listing(container.get("envFrom"))]
        sources += [mapping(variable.get("valueFrom")) for variable in listing(container.get("env"))]
        for source in sources:
            for field, kind in _FROM.items():
                reference = mapping(source.get(field))
                if reference.get("name") and not reference.get("optional"):
                    yield kind, str(reference["name"])


def _missing_reference(case: Case, kind: str, named: str, who: str, keys: set[str]) -> CheckResult | None:
    """Return the failure for a referenced object that is missing or lacks some of `keys`; None if it is complete."""
    item = case.kubectl.get(f"{kind.lower()}s/{named}")
    create = _create_command(case, kind, named)
    is_own = bool(keys) and any(
        folder.rpartition("/")[2] == SECRETS.name for folder, _ in case.overlay.sources.components
    )
    if is_own:
        create += " --from-env-file=secrets.env"
    if item is None:
        return fails("references", f"the {who} refers to the {kind} {named}, which does not exist", create)
    if missing := sorted(keys - mapping(item.get("data")).keys()):
        message = f"the Secret {named} has no {', '.join(missing)}, which the {who} reads"
        return fails(
            "references", message, f"kubectl edit secret {quote(named)} {case.namespace_flag}" if is_own else None
        )
    return None


def _secret_keys(case: Case) -> dict[str, set[str]]:
    """Return the required keys of each Secret that the pods read."""
    keys: dict[str, set[str]] = {}
    for demand in case.demands:
        for container in (*listing(demand.spec.get("initContainers")), *listing(demand.spec.get("containers"))):
            for variable in map(mapping, listing(mapping(container).get("env"))):
                reference = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
                if reference.get("name") and reference.get("key") and not reference.get("optional"):
                    keys.setdefault(str(reference["name"]), set()).add(str(reference["key"]))
    return keys


def _pull_secrets(case: Case) -> list[str]:
    entries = [entry for demand in case.demands for entry in listing(demand.spec.get("imagePullSecrets"))]
    return list(dict.fromkeys(str(entry["name"]) for entry in entries if entry.get("name")))


def _foreign_children(case: Case, manifests: Manifests, live: Object | None) -> Iterator[Object]:
    """Yield existing objects whose names the operator needs, and which do not belong to the workload."""
    made = manifests.kind.made_objects(manifests.workload)
    for item in case.kubectl.items(*made, "--show-managed-fields") if made else ():
        if live is None or uid(live) not in owners(item):
            yield item


def _removal_hint(case: Case, manifests: Manifests, live: Object | None) -> str:
    """Return the fix for an earlier deployment: delete it, or ask the other user who deployed it."""
    if live is not None and (user := annotation(live, DEPLOYED_BY)) not in (None, case.identity.user):
        return f"ask {user}, or use another namespace (-n)"
    return f"kubectl delete {quote(manifests.shown)} {case.namespace_flag}"


def _create_command(case: Case, kind: str, named: str) -> str:
    if kind == "pull":
        login = "--docker-server=HOST --docker-username=YOU"
        return f"kubectl create secret docker-registry {quote(named)} {login} {case.namespace_flag}"
    how = {"Secret": "secret generic", "ConfigMap": "configmap", "ServiceAccount": "serviceaccount"}[kind]
    return f"kubectl create {how} {quote(named)} {case.namespace_flag}"
