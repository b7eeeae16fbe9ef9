"""Is there what the pods refer to, and nothing in the place of what they bring: claims, secrets, names?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from packager.cluster import deploy
from packager.cluster.deploy import State as Met
from packager.cluster.doctor.case import fails, ok
from packager.cluster.manifests import DIGEST
from packager.cluster.objects import annotation, labels, name, owners, shown, status, uid
from packager.errors import ClusterError, UnreachableError
from packager.verify.overlay import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, Finding
    from packager.cluster.objects import Object

_FROM = {"configMapRef": "ConfigMap", "configMapKeyRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret"}
_INSTANCE = "app.kubernetes.io/instance"
_PULL = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_SHARED = {"ReadWriteMany", "ReadOnlyMany"}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def claims(case: Case) -> Iterator[Finding]:
    """Every claim is there, can be mounted by as many pods as need it, and is bound or will be."""
    users: Counter[str] = Counter()
    for demand in case.demands:
        for volume in listing(demand.spec.get("volumes")):
            if claim := mapping(volume.get("persistentVolumeClaim")).get("claimName"):
                users[str(claim)] += demand.count
    for claim, count in users.items():
        brought = case.overlay.named("PersistentVolumeClaim", claim)
        found = brought.data if brought else case.kubectl.get(f"persistentvolumeclaims/{claim}")
        if found is None:
            yield fails("claims", f"there is no claim {claim} in {case.namespace}", f"kubectl get pvc {case.here}")
            continue
        modes = set(listing(found["spec"].get("accessModes")))
        if count > 1 and not modes & _SHARED:
            message = f"{claim} is {', '.join(sorted(modes))}, and {count} pods mount it: they fit on one node at best"
            yield fails("claims", message, f"kubectl describe pvc {claim} {case.here}")
        elif trouble := _unbound(case, found, brought=brought is not None):
            yield fails("claims", f"{claim} {trouble}", f"kubectl describe pvc {claim} {case.here}")
        else:
            yield ok("claims", f"{claim}: {', '.join(sorted(modes))}")


def references(case: Case) -> Iterator[Finding]:
    """Every Secret, ConfigMap and service account that the pods name is brought along, or there already."""
    wanted: dict[tuple[str, str], str] = {}
    for demand in case.demands:
        wanted = dict.fromkeys(_named(demand.spec), demand.name) | wanted
    absent = 0
    for (kind, named), who in wanted.items():
        if case.overlay.named(kind, named):
            continue
        found = case.kubectl.get(f"{kind.lower()}s/{named}")
        if found is None:
            absent += 1
            yield fails(
                "references", f"the {who} names the {kind} {named}, and there is none", _make(case, kind, named)
            )
    for secret in _pull_secrets(case):
        found = case.kubectl.get(f"secrets/{secret}")
        if found is None:
            absent += 1
            message = f"there is no secret {secret} to pull images with"
            yield fails("references", message, _make(case, "pull", secret))
        elif found.get("type") not in _PULL:
            absent += 1
            message = f"the secret {secret} is of the type {found.get('type')}, with which no image is pulled"
            yield fails("references", message, _make(case, "pull", secret))
    if not absent:
        yield ok("references", "everything that the pods name is brought along, or there")


def names(case: Case) -> Iterator[Finding]:
    """No name is taken: neither of what is applied, nor of what the operator makes of it."""
    met = deploy.meet(case.kubectl, case.manifests)
    taken = list(_theirs(case, met.live))
    for each in taken:
        yield fails("names", f"{shown(each)} is there already, and not of this package", _delete(case, shown(each)))
    by = f" by {met.deployed_by}" if met.deployed_by else ""
    match met.state:
        case Met.ENDED | Met.CHANGED | Met.GOING:
            how = {
                Met.ENDED: "has run already",
                Met.CHANGED: "is there already, and different",
                Met.GOING: "is being deleted",
            }
            message = f"{case.manifests.name} {how[met.state]}{f', deployed{by}' if by else ''}"
            yield fails("names", message, _delete(case, f"{case.manifests.engine.resource}/{case.manifests.name}"))
        case Met.SAME:
            yield ok("names", f"{case.manifests.name} is there already{by}, as the package says")
        case Met.ABSENT if not taken:
            yield ok("names", "nothing is in the way")


def dry_run(case: Case) -> Iterator[Finding]:
    """The server takes every object as it is, by its own word: a dry run, which makes nothing."""
    text = case.manifests.stamped("sha256:" + "0" * 64, "mlpack doctor")
    try:
        deploy.apply(case.kubectl, text, dry_run="server")
    except UnreachableError:
        raise
    except ClusterError as error:
        said_already = str(error).startswith(("there is no namespace", "the cluster knows no"))
        if not said_already and "cannot patch resource" not in str(error):
            yield fails("apply", str(error), error.hint)
        return
    yield ok("apply", f"the server takes all {len(case.manifests.objects)} objects (dry run)")


def _unbound(case: Case, claim: Object, *, brought: bool) -> str | None:
    """Return why the claim will not be bound; None when it is, or when the first pod makes it so."""
    if not brought and status(claim).get("phase") == "Bound":
        return None
    if status(claim).get("phase") == "Lost":
        return "has lost its volume"
    if claim["spec"].get("volumeName"):
        return None if brought else "waits for its volume"
    classes = case.kubectl.items("storageclasses")
    wanted = claim["spec"].get("storageClassName")
    if wanted is None:
        found = next((each for each in classes if annotation(each, _DEFAULT_CLASS) == "true"), None)
        if found is None:
            return (
                None if _has_volume(case, claim, "") else "names no storage class, and the cluster has no default one"
            )
    else:
        found = next((each for each in classes if name(each) == wanted), None)
        if found is None:
            return (
                None if _has_volume(case, claim, wanted) else f"names the storage class {wanted!r}, and there is none"
            )
    waits = found.get("volumeBindingMode") == "WaitForFirstConsumer"
    return None if brought or waits else "is not bound yet"


def _has_volume(case: Case, claim: Object, storage_class: str) -> bool:
    """Whether somebody has made a volume by hand that the claim may be bound to."""
    volumes = case.kubectl.items("persistentvolumes")
    modes = set(claim["spec"].get("accessModes") or ())
    return any(
        status(volume).get("phase") == "Available"
        and (volume["spec"].get("storageClassName") or "") == storage_class
        and modes <= set(volume["spec"].get("accessModes") or ())
        for volume in volumes
    )


def _named(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and name of everything that the pod cannot start without."""
    if account := spec.get("serviceAccountName"):
        yield "ServiceAccount", str(account)
    for volume in listing(spec.get("volumes")):
        sources = [volume, *listing(mapping(volume.get("projected")).get("sources"))]
        for source in sources:
            for kind, field, key in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
                found = mapping(source.get(field))
                named = found.get(key) or found.get("name")
                if named and not found.get("optional"):
                    yield kind, str(named)
    for container in [*listing(spec.get("initContainers")), *listing(spec.get("containers"))]:
        sources = [*listing(container.get("envFrom"))]
        sources += [mapping(each.get("valueFrom")) for each in listing(container.get("env"))]
        for source in sources:
            for field, kind in _FROM.items():
                found = mapping(source.get(field))
                if found.get("name") and not found.get("optional"):
                    yield kind, str(found["name"])


def _pull_secrets(case: Case) -> list[str]:
    found = [each for demand in case.demands for each in listing(demand.spec.get("imagePullSecrets"))]
    return list(dict.fromkeys(str(each["name"]) for each in found if each.get("name")))


def _theirs(case: Case, live: Object | None) -> Iterator[Object]:
    """Yield what is there under a name of ours, and is not ours."""
    instance = labels(case.manifests.workload).get(_INSTANCE)
    mine = [f"{each['kind'].lower()}s/{name(each)}" for each in case.manifests.objects if "/" not in each["apiVersion"]]
    for each in case.kubectl.items(*mine) if mine else ():
        if labels(each).get(_INSTANCE) != instance and annotation(each, DIGEST) is None:
            yield each
    made = case.manifests.engine.makes(case.manifests.workload)
    for each in case.kubectl.items(*made) if made else ():
        if live is None or uid(live) not in owners(each):
            yield each


def _make(case: Case, kind: str, named: str) -> str:
    if kind == "pull":
        return f"kubectl create secret docker-registry {named} --docker-server=HOST --docker-username=YOU {case.here}"
    how = {"Secret": "secret generic", "ConfigMap": "configmap", "ServiceAccount": "serviceaccount"}[kind]
    return f"kubectl create {how} {named} {case.here}"


def _delete(case: Case, what: str) -> str:
    return f"kubectl delete {what} {case.here}"
