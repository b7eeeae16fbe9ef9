"""Checks that the claims and other objects of pods exist. Tests: cli/test_doctor.py."""

from collections import Counter
from collections.abc import Iterator
from shlex import quote
from typing import Any

from packager.base.errors import DeniedError
from packager.base.paths import argument
from packager.cluster.doctor.case import Case, CheckResult, fails, ok
from packager.kubernetes.manifest import listing, mapping
from packager.package import layout
from packager.package.options import SECRETS

_FROM = {"configMapRef": "ConfigMap", "configMapKeyRef": "ConfigMap", "secretRef": "Secret", "secretKeyRef": "Secret"}
_VALUES = {"secret docker-registry": " --docker-server=HOST --docker-username=YOU"}


def claims(case: Case) -> Iterator[CheckResult]:
    """Check that every claim exists, and can be mounted by all pods that use it."""
    users: Counter[str] = Counter()
    for demand in case.demands:
        volumes = [mapping(volume.get("persistentVolumeClaim")) for volume in listing(demand.spec.get("volumes"))]
        users.update(dict.fromkeys({str(one["claimName"]): 0 for one in volumes if one.get("claimName")}, demand.count))
    for claim, count in users.items():
        brought = case.target.rendered.named("PersistentVolumeClaim", claim)
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
    overlay, users = case.target.rendered, dict[tuple[str, str, str], str]()
    for demand in case.demands:
        users = dict.fromkeys(_named_objects(demand.spec), demand.name) | users
    has_failed = False
    has_own_secret = any(folder.rpartition("/")[2] == SECRETS.name for folder, _ in overlay.sources.components)
    for (kind, named, how), who in users.items():
        if not overlay.named(kind, named) and case.kubectl.get(f"{kind.lower()}s/{named}") is None:
            has_failed = True
            values = _VALUES.get(how, " --from-env-file=secrets.env" if has_own_secret and kind == "Secret" else "")
            create = f"kubectl create {how} {quote(named)}{values} {case.namespace_flag}"
            yield fails("references", f"the {who} refers to the {kind} {named}, which does not exist", create)
    if not has_failed:
        yield ok("references", "the Secrets, ConfigMaps and service accounts of the pods exist or are in the package")


def _named_objects(spec: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each object that the pod cannot start without: its kind and name, and how kubectl creates it."""
    if account := spec.get("serviceAccountName"):
        yield "ServiceAccount", str(account), "serviceaccount"
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
    for kind, entry, named in found:
        if named and not entry.get("optional"):
            yield kind, str(named), "secret generic" if kind == "Secret" else "configmap"
    for secret in map(mapping, listing(spec.get("imagePullSecrets"))):
        if secret.get("name"):
            yield "Secret", str(secret["name"]), "secret docker-registry"
