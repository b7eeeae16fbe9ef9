"""Checks that the claims and other objects of pods exist, and that no name is taken. Tests: cli/test_doctor.py."""

from collections import Counter
from collections.abc import Iterator
from shlex import quote
from typing import Any

from packager.base.errors import DeniedError
from packager.base.paths import argument
from packager.cluster import apply as deploy
from packager.cluster.apply import DeployState
from packager.cluster.doctor.case import Case, CheckResult, fails, ok
from packager.cluster.manifests import Manifests
from packager.cluster.ownership import DEPLOYED_BY, owner
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import annotation, shown
from packager.package import layout
from packager.package.options import SECRETS

_FROM = {"configMapRef": "ConfigMap", "configMapKeyRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret"}
_CREATE = {"Secret": "secret generic", "ConfigMap": "configmap", "ServiceAccount": "serviceaccount"}
_PULL = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_OTHER_NAME_HINT = "use another namespace (-n), or another nameSuffix in the overlay's kustomization.yaml"
_OBSTACLES = {
    DeployState.ENDED: "has already run",
    DeployState.CHANGED: "already exists with a different spec",
    DeployState.GOING: "is being deleted",
}


def claims(case: Case) -> Iterator[CheckResult]:
    """Check that every claim exists, and can be mounted by all pods that use it."""
    users: Counter[str] = Counter()
    for demand in case.demands:
        volumes = [mapping(volume.get("persistentVolumeClaim")) for volume in listing(demand.spec.get("volumes"))]
        users.update(dict.fromkeys({str(one["claimName"]): 0 for one in volumes if one.get("claimName")}, demand.count))
    for claim, count in users.items():
        brought = case.overlay.named("PersistentVolumeClaim", claim)
        live = brought.data if brought else case.kubectl.get(f"persistentvolumeclaims/{claim}")
        if live is None:
            fix = f"{_creation(case, claim)} {case.namespace_flag}"
            yield fails("claims", f"claim {claim} not found in {case.namespace}", fix)
            continue
        modes = set(listing(live["spec"].get("accessModes")))
        shown_modes = ", ".join(sorted(modes))
        is_shared = modes & {"ReadWriteMany", "ReadOnlyMany"} or (modes == {"ReadWriteOnce"} and _has_one_node(case))
        if count > 1 and not is_shared:
            message = f"{claim} is {shown_modes}, and {count} pods mount it: they must all run on one node"
            yield fails("claims", message, f"kubectl describe pvc {quote(claim)} {case.namespace_flag}")
        else:
            yield ok("claims", f"{claim}: {shown_modes}")


def _creation(case: Case, claim: str) -> str:
    """Return the command that creates the workspace claim of a package; of another claim, the command that lists."""
    package = case.target.package
    if package.workspace != claim:
        return "kubectl get pvc"
    if package.folder != package.source:  # kubectl cannot read an archive
        return f"mlpack run {argument(package.source)}"
    return f"kubectl apply -k {argument(package.source / layout.overlay(layout.WORKSPACE))}"


def _has_one_node(case: Case) -> bool:
    """Whether all pods are on the only node of the cluster; false if the user may not list nodes."""
    try:
        return len(case.kubectl.items("nodes")) == 1
    except DeniedError:
        return False


def references(case: Case) -> Iterator[CheckResult]:
    """Check that every Secret, ConfigMap and service account of the pods is in the package or exists."""
    users: dict[tuple[str, str], str] = {}
    for demand in case.demands:
        users = dict.fromkeys(_named_objects(demand.spec), demand.name) | users
    has_failed = False
    has_own_secret = any(folder.rpartition("/")[2] == SECRETS.name for folder, _ in case.overlay.sources.components)
    for (kind, named), who in users.items():
        if not case.overlay.named(kind, named) and case.kubectl.get(f"{kind.lower()}s/{named}") is None:
            has_failed = True
            create = f"kubectl create {_CREATE[kind]} {quote(named)} {case.namespace_flag}"
            create += " --from-env-file=secrets.env" if has_own_secret and kind == "Secret" else ""
            yield fails("references", f"the {who} refers to the {kind} {named}, which does not exist", create)
    pull_secrets = [entry for demand in case.demands for entry in listing(demand.spec.get("imagePullSecrets"))]
    for secret in dict.fromkeys(str(entry["name"]) for entry in pull_secrets if entry.get("name")):
        item = case.kubectl.get(f"secrets/{secret}")
        if item is not None and item.get("type") in _PULL:
            continue
        has_failed = True
        message = f"secret {secret} for pulling images not found"
        if item is not None:
            message = f"the secret {secret} is of the type {item.get('type')}, which cannot be used to pull images"
        login = "--docker-server=HOST --docker-username=YOU"
        create = f"kubectl create secret docker-registry {quote(secret)} {login} {case.namespace_flag}"
        yield fails("references", message, create)
    if not has_failed:
        yield ok("references", "the Secrets, ConfigMaps and service accounts of the pods exist or are in the package")


def _named_objects(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of each object that the pod cannot start without."""
    if account := spec.get("serviceAccountName"):
        yield "ServiceAccount", str(account)
    found: list[tuple[str, dict[str, Any], Any]] = []
    for volume in listing(spec.get("volumes")):
        for source in (volume, *listing(mapping(volume.get("projected")).get("sources"))):
            config_map, secret = mapping(source.get("configMap")), mapping(source.get("secret"))
            found.append(("ConfigMap", config_map, config_map.get("name")))
            found.append(("Secret", secret, secret.get("secretName") or secret.get("name")))
    for container in (*listing(spec.get("initContainers")), *listing(spec.get("containers"))):
        variables = [mapping(variable.get("valueFrom")) for variable in listing(container.get("env"))]
        for source in (*listing(container.get("envFrom")), *variables):
            entries = ((kind, mapping(source.get(field))) for field, kind in _FROM.items())
            found += [(kind, entry, entry.get("name")) for kind, entry in entries]
    yield from ((kind, str(named)) for kind, entry, named in found if named and not entry.get("optional"))


def names(case: Case) -> Iterator[CheckResult]:
    """Check that the names of the applied objects are free."""
    yield from dict.fromkeys(finding for one in case.manifests.per_workload for finding in _name_results(case, one))


def _name_results(case: Case, manifests: Manifests) -> Iterator[CheckResult]:
    situation = deploy.situation(manifests, case.live, case.plan[0])
    live, state = situation.live, situation.state
    foreign = [item for item in case.live.values() if not case.identity.owns(item)]
    for item in foreign:
        message = f"{shown(item)} already exists and does not belong to this package ({owner(item)})"
        yield fails("names", message, _OTHER_NAME_HINT)
    if live in foreign:
        return
    author = f", deployed by {situation.deployed_by}" if situation.deployed_by else ""
    if state in _OBSTACLES:
        user = annotation(live, DEPLOYED_BY) if live else None
        fix = f"kubectl delete {quote(manifests.shown)} {case.namespace_flag}"
        if user not in (None, case.identity.user):
            fix = f"ask {user}, or use another namespace (-n)"
        yield fails("names", f"{manifests.name} {_OBSTACLES[state]}{author}", fix)
    elif state is DeployState.OUTDATED:
        yield ok("names", f"{manifests.name} already exists{author}, and accepts the changes")
    elif state is DeployState.SAME:
        how = "as the cluster's policies have changed it" if situation.differences else "and is up to date"
        yield ok("names", f"{manifests.name} already exists{author}, {how}")
    elif not foreign:
        yield ok("names", "no conflicting objects")
