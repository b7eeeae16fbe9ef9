"""Fields, labels and annotations that no build makes: each is reported, in every kind of object."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.process import SYSTEM
from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.builder.selection import Selection
from packager.kubernetes.allowed import table, words
from packager.kubernetes.allowed.judge import Judge
from packager.kubernetes.allowed.table import Facts
from packager.kubernetes.manifest import Manifest, at
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.package.opened import opened
from packager.package.options import KEYS, KNOWN
from packager.package.tree import write
from packager.rendering import render as rendering
from packager.rendering.overlay import RenderedOverlay
from packager.verify import Checks, allowed_fields, objects, verify
from packager.workloads.structures import pods, structures
from tests import everything, kinds
from tests.broken import seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.modelspec.load import LoadedSpec
    from tests.conftest import Outcome

SINGLE = "quickstart/k8s/mlops/single-node"
COMPANIONS = ("expose", "autoscale")

POD_ATTACKS: dict[str, Any] = {
    "spec.affinity": {"nodeAffinity": {}},
    "spec.dnsPolicy": "None",
    "spec.ephemeralContainers": [{"name": "x"}],
    "spec.hostAliases": [{"ip": "10.6.6.6", "hostnames": ["registry"]}],
    "spec.hostIPC": True,
    "spec.hostNetwork": True,
    "spec.imagePullSecrets": [{"name": "others"}],
    "spec.nodeSelector": {"kubernetes.io/hostname": "node-1"},
    "spec.priorityClassName": "system-node-critical",
    "spec.resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    "spec.schedulerName": "mine",
    "spec.tolerations": [{"operator": "Exists"}],
    "spec.terminationGracePeriodSeconds": 3606,
    "spec.topologySpreadConstraints": [{"maxSkew": 1}],
    "spec.securityContext.supplementalGroups": [0],
    "spec.securityContext.appArmorProfile": {"type": "Localhost", "localhostProfile": "x"},
    "spec.securityContext.seLinuxOptions": {"level": "s0:c1,c2"},
    "spec.securityContext.seccompProfile.type": "Localhost",
    "spec.securityContext.windowsOptions": {"runAsUserName": "x"},
    "spec.securityContext.sysctls": [{"name": "net.core.somaxconn", "value": "1"}],
    "spec.containers[0].lifecycle.postStart": {"httpGet": {"host": "10.6.6.6", "port": 80}},
    "spec.containers[0].livenessProbe": {"httpGet": {"host": "10.6.6.6", "port": 80}},
    "spec.containers[0].readinessProbe": {"tcpSocket": {"host": "10.6.6.6", "port": 80}},
    "spec.containers[0].resources.claims": [{"name": "gpu"}],
    "spec.containers[0].securityContext.privileged": True,
    "spec.containers[0].securityContext.capabilities.add": ["SYS_ADMIN"],
    "spec.containers[0].env": [{"name": "X", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "spec"}}}],
    "spec.containers[0].imagePullPolicy": "Sometimes",
    "spec.containers[0].restartPolicy": "Always",
    "spec.containers[0].securityContext.appArmorProfile": {"type": "Localhost"},
    "spec.containers[0].securityContext.runAsUser": 0,
    "spec.containers[0].securityContext.seLinuxOptions": {"level": "s0"},
    "spec.containers[0].securityContext.windowsOptions": {"hostProcess": True},
    "spec.containers[0].volumeMounts": [{"name": "env", "mountPath": "/x", "mountPropagation": "HostToContainer"}],
    "spec.initContainers[0].restartPolicy": "Always",
}
"""Fields of a pod, with values that no build sets."""

TOLERATIONS: list[dict[str, Any]] = [
    {"operator": "Exists"},
    {"key": "", "operator": "Exists"},
    {"key": None, "operator": "Exists"},
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/master", "operator": "Exists"},
]
"""Tolerations of every taint, and of the control plane's nodes."""

VOLUMES: dict[str, Any] = {
    "configMap": {"name": "others", "optional": True},
    "csi": {"driver": "secrets-store.csi.k8s.io", "volumeAttributes": {"secretProviderClass": "others"}},
    "downwardAPI": {"items": []},
    "emptyDir": {"medium": "HugePages"},
    "ephemeral": {"volumeClaimTemplate": {"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "others"}}}},
    "hostPath": {"path": "/"},
    "image": {"reference": "example.com/x"},
    "nfs": {"server": "10.6.6.6", "path": "/"},
    "persistentVolumeClaim": {"claimName": "others"},
    "projected": {"sources": [{"podCertificate": {"signerName": "x/y", "keyType": "ED25519"}}]},
}
"""Volumes that no build makes."""

PROJECTED: dict[str, Any] = {
    "clusterTrustBundle": {"name": "x", "path": "x"},
    "configMap": {"name": "others", "optional": True},
    "downwardAPI": {"items": []},
}
VARIABLES: dict[str, Any] = {
    "configMapKeyRef": {"name": "others", "key": "x", "optional": True},
    "resourceFieldRef": {"resource": "limits.cpu"},
    "fileKeyRef": {"volumeName": "x", "path": "x", "key": "x"},
}

KEPT = ("containers", "initContainers")

ANNOTATIONS = (
    "sidecar.istio.io/userVolume",
    "inject.istio.io/templates",
    "k8s.v1.cni.cncf.io/networks",
    "vault.hashicorp.com/agent-inject",
    "nginx.ingress.kubernetes.io/configuration-snippet",
    "container.apparmor.security.beta.kubernetes.io/main",
    "kubernetes.io/enforce-mountable-secrets",
    "unknown",
)
LABELS = (
    "app",
    "app.kubernetes.io/version",
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/priority-class",
    "mlpack/expose",
    "mlpack/storage",
    "mlpack.dev/job",
    "jobset.sigs.k8s.io/jobset-name",
)


def rendered(
    folder: Path, loaded: LoadedSpec, kubectl: Path, options: tuple[str, ...] = (), only: str = "", **site: str
) -> Iterator[RenderedOverlay]:
    """Yield every overlay of each variant of a model, or one of a name, with these options on."""
    values = {key.name: key.example for key in KEYS.values()} | site
    selection = Selection(options, values=values) if options else Selection()
    for number, variant in enumerate(loaded.spec.variants):
        path = folder / f"{loaded.spec.name}-{len(options)}-{number}"
        path.mkdir(parents=True)
        write(render(plan(loaded, variant, Options(root="/srv", site=selection))), path)
        with opened(path) as package:
            for name in (only,) if only else package.applied:
                outcome = rendering.render(package, name, (str(kubectl),), SYSTEM)
                assert (outcome.problems, outcome.unchecked) == ((), ())
                assert outcome.overlay is not None
                yield outcome.overlay


@pytest.fixture(scope="module")
def overlays(tmp_path_factory: pytest.TempPathFactory, kubectl: Path) -> tuple[RenderedOverlay, ...]:
    """The overlays of hello-mpi, one of each kind, without options."""
    loaded = load(bundled() / "hello-mpi" / "spec.yaml", kinds.SETTINGS)
    return tuple(rendered(tmp_path_factory.mktemp("plain"), loaded, kubectl))


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory, kubectl: Path) -> RenderedOverlay:
    """The overlay of a Deployment with every companion object that options can add."""
    loaded = load(bundled() / "hello-mpi" / "spec.yaml", kinds.SETTINGS)
    values = {"EXPOSE": "Ingress", "EXPOSE_HOST": "model.team.example"}
    [overlay] = rendered(tmp_path_factory.mktemp("exposed"), loaded, kubectl, COMPANIONS, "server", **values)
    return overlay


def changed(
    overlay: RenderedOverlay, manifest: Manifest, change: Callable[[dict[str, Any]], object]
) -> RenderedOverlay:
    """Return an overlay with one of its objects changed."""
    data = copy.deepcopy(manifest.data)
    change(data)
    manifests = (Manifest(data) if one is manifest else one for one in overlay.manifests)
    return RenderedOverlay(overlay.name, tuple(manifests), overlay.sources, overlay.claim)


def named(overlay: RenderedOverlay, *allowed: str) -> set[str]:
    """Return the words of `--allow` that would permit the findings."""
    return {problem.allow for problem in allowed_fields.check(overlay, allowed)}


def put(data: dict[str, Any], location: Location, path: str, value: Any) -> None:
    """Set a value at a path below a location, and create missing mappings on the way."""
    target: Any = at(data, location) if location else data
    *above, last = path.replace("[", ".").replace("]", "").split(".")
    for step in above:
        target = target[int(step)] if step.isdecimal() else target.setdefault(step, {})
    target[last] = value


def templates(overlays: tuple[RenderedOverlay, ...]) -> Iterator[tuple[RenderedOverlay, Manifest, Location]]:
    """Yield every pod template of overlays."""
    for overlay in overlays:
        for manifest in overlay.manifests:
            for template in pods(manifest):
                yield overlay, manifest, template.location


def test_overlays_cover_every_kind_without_findings(overlays: tuple[RenderedOverlay, ...]) -> None:
    assert {manifest.kind for _, manifest, _ in templates(overlays)} == set(structures())
    assert sum(named(overlay) != set() for overlay in overlays) == 0


def test_unlisted_fields_are_reported_in_every_pod(overlays: tuple[RenderedOverlay, ...]) -> None:
    for overlay, manifest, location in templates(overlays):

        def change(data: dict[str, Any], location: Location = location) -> None:
            for path, value in POD_ATTACKS.items():
                put(data, location, path, value)

        attacked = changed(overlay, manifest, change)
        found = named(attacked)
        for path in POD_ATTACKS:
            prefix = f"pod.{path.replace('[0]', '[]')}"
            assert any(word == prefix or word.startswith((f"{prefix}.", f"{prefix}[")) for word in found), prefix
        assert (len(found), named(attacked, *found)) == (len(POD_ATTACKS), set()), manifest.kind


def test_toleration_of_every_or_system_taint_is_reported_with_option_on(
    overlays: tuple[RenderedOverlay, ...],
) -> None:
    facts = Facts(frozenset(("placement",)))
    for _, manifest, _ in templates(overlays):
        pod = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}, *TOLERATIONS]}}
        locations = [unlisted.location for unlisted in Judge(facts, manifest).template(pod, ())]
        assert locations == [("spec", "tolerations", index + 1, "key") for index in range(len(TOLERATIONS))]


def test_unlisted_volumes_and_sources_are_reported_in_every_pod(overlays: tuple[RenderedOverlay, ...]) -> None:
    source = {"configMapRef": {"name": "others", "optional": True}, "prefix": "X_"}
    variables = [{"name": f"X{kind}", "valueFrom": {kind: value}} for kind, value in VARIABLES.items()]
    volumes = [{"name": kind.lower(), kind: value} for kind, value in VOLUMES.items()]
    projected = {"name": "x", "projected": {"sources": [{kind: value} for kind, value in PROJECTED.items()]}}
    for overlay, manifest, location in templates(overlays):

        def change(data: dict[str, Any], location: Location = location) -> None:
            put(data, location, "spec.volumes", [*volumes, projected])
            for containers in ("containers", "initContainers"):
                put(data, location, f"spec.{containers}[0].env", variables)
            put(data, location, "spec.containers[0].envFrom", [source])

        attacked = changed(overlay, manifest, change)
        found = named(attacked)
        for prefix in (
            *(f"pod.spec.volumes[].{kind}" for kind in VOLUMES),
            *(f"pod.spec.volumes[].projected.sources[].{kind}" for kind in PROJECTED),
            *(f"pod.spec.{containers}[].env[].valueFrom.{kind}" for containers in KEPT for kind in VARIABLES),
            *(f"pod.spec.containers[].envFrom[].{field}" for field in ("configMapRef.name", "configMapRef.optional")),
            "pod.spec.containers[].envFrom[].prefix",
        ):
            assert any(word.startswith(prefix) for word in found), (manifest.kind, prefix)
        assert named(attacked, *found) == set()


def metadata_places(manifest: Manifest) -> Iterator[Location]:
    """Yield each location of metadata in an object: its own, and that of each template in it."""
    yield ("metadata",)
    for template in pods(manifest):
        location = (*template.location, "metadata")
        if location != ("metadata",):
            yield location
    if manifest.kind == "JobSet":
        yield ("spec", "replicatedJobs", 0, "template", "metadata")


def test_unlisted_labels_annotations_and_metadata_are_reported_in_every_object_and_template(
    overlays: tuple[RenderedOverlay, ...], exposed: RenderedOverlay
) -> None:
    words = {*(f"annotation:{key}" for key in ANNOTATIONS), *(f"label:{key}" for key in LABELS)}
    of_cluster: dict[str, Any] = {"finalizers": ["kueue.x-k8s.io/managed"], "ownerReferences": [], "uid": "x"}
    for overlay in (*overlays, exposed):
        for manifest in overlay.manifests:
            for location in metadata_places(manifest):

                def change(data: dict[str, Any], place: Location = location) -> None:
                    metadata = at(data, place[:-1]).setdefault("metadata", {})
                    metadata.setdefault("annotations", {}).update(dict.fromkeys(ANNOTATIONS, "x"))
                    metadata.setdefault("labels", {}).update(dict.fromkeys(LABELS, "x"))
                    metadata.update(of_cluster)

                attacked = changed(overlay, manifest, change)
                problems = list(allowed_fields.check(attacked, ()))
                if location == ("spec", "replicatedJobs", 0, "template", "metadata"):
                    assert {problem.allow for problem in problems} == {"jobset.spec.replicatedJobs[].template.metadata"}
                    continue
                assert {problem.allow for problem in problems} - {""} == words, (manifest.kind, location)
                assert sum(problem.message.endswith(": the cluster does") for problem in problems) == len(of_cluster)


BESIDE: list[tuple[str, str, Any]] = [
    ("Service", "spec.type", "LoadBalancer"),
    ("Service", "spec.type", "NodePort"),
    ("Service", "spec.externalIPs", ["10.6.6.6"]),
    ("Service", "spec.clusterIP", "10.96.0.10"),
    ("Service", "spec.selector", {"app": "others"}),
    ("Service", "spec.ports[0].nodePort", 30000),
    ("PodDisruptionBudget", "spec.maxUnavailable", 0),
    ("PodDisruptionBudget", "spec.maxUnavailable", "0%"),
    ("PodDisruptionBudget", "spec.minAvailable", "100%"),
    ("PodDisruptionBudget", "spec.selector.matchLabels", {"app": "others"}),
    ("Ingress", "spec.tls", [{"hosts": ["bank.example"], "secretName": "others"}]),
    ("Ingress", "spec.defaultBackend", {"service": {"name": "others", "port": {"number": 80}}}),
    ("Ingress", "spec.rules[0].host", "bank.example"),
    ("Ingress", "spec.rules[0].http.paths[0].backend.service.name", "others"),
    ("Ingress", "spec.rules[0].http.paths[0].path", "/x;}location /y {proxy_pass http://others"),
    ("Ingress", "spec.rules[0].http.paths[0].pathType", "ImplementationSpecific"),
    ("Ingress", "spec.rules[0].http.paths[0].backend.resource", {"kind": "Secret", "name": "others"}),
    ("HorizontalPodAutoscaler", "spec.scaleTargetRef.name", "others"),
    ("HorizontalPodAutoscaler", "spec.maxReplicas", 0),
    ("HorizontalPodAutoscaler", "spec.metrics[0].resource.name", "requests"),
    ("HorizontalPodAutoscaler", "spec.metrics[0].resource.target.averageUtilization", 0),
    ("Deployment", "spec.selector.matchLabels", {"app": "others"}),
]


def test_unlisted_fields_of_companion_objects_are_reported(exposed: RenderedOverlay) -> None:
    for kind, path, value in BESIDE:
        manifest = next(manifest for manifest in exposed.manifests if manifest.kind == kind)
        attacked = changed(exposed, manifest, lambda data: put(data, (), path, value))  # noqa: B023
        prefix = f"{kind.lower()}.{path.replace('[0]', '[]')}."
        assert {f"{word}.".startswith(prefix) for word in named(attacked)} == {True}, (path, value)
        assert named(attacked, kind) == set()


JOBS: list[tuple[str, str, Any]] = [
    ("Job", "spec.managedBy", "example.com/mine"),
    ("Job", "spec.selector", {"matchLabels": {"app": "others"}}),
    ("Job", "spec.suspend", True),
    ("JobSet", "spec.managedBy", "example.com/mine"),
    ("JobSet", "spec.network.subdomain", "others"),
    ("JobSet", "spec.replicatedJobs[0].template.metadata", {"finalizers": ["x/y"]}),
    ("JobSet", "spec.replicatedJobs[0].template.spec.managedBy", "example.com/mine"),
    ("MPIJob", "spec.runPolicy.managedBy", "example.com/mine"),
    ("MPIJob", "spec.runPolicy.schedulingPolicy", {"queue": "others"}),
    ("MPIJob", "spec.runLauncherAsWorker", True),
]


def test_unlisted_fields_of_workloads_are_reported(overlays: tuple[RenderedOverlay, ...]) -> None:
    for kind, path, value in JOBS:
        overlay, manifest = next(
            (overlay, manifest) for overlay in overlays for manifest in overlay.manifests if manifest.kind == kind
        )
        attacked = changed(overlay, manifest, lambda data: put(data, (), path, value))  # noqa: B023
        assert named(attacked) == {f"{kind.lower()}.{path.replace('[0]', '[]')}"}


def test_objects_of_switched_off_options_are_reported(
    exposed: RenderedOverlay, overlays: tuple[RenderedOverlay, ...]
) -> None:
    plain = next(overlay for overlay in overlays if overlay.name == "server")
    for kind in ("Ingress", "HorizontalPodAutoscaler"):
        extra = next(manifest for manifest in exposed.manifests if manifest.kind == kind)
        both = RenderedOverlay(plain.name, (*plain.manifests, extra), plain.sources)
        word = f"{kind}.{extra.group}"
        assert (word in named(both), word in named(both, word)) == (True, False)


FREE = ("data", "binaryData", "limits", "requests", "nodeSelector")
"""Mappings whose keys are the user's own."""


def mappings(value: Any, location: Location = ()) -> Iterator[Location]:
    """Yield the location of each mapping."""
    if isinstance(value, dict):
        yield location
        for key, item in value.items():
            yield from mappings(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from mappings(item, (*location, index))


def check_every_mapping(overlay: RenderedOverlay) -> int:
    """Check that an unknown key is reported in every mapping of an overlay; return the number of mappings.

    Only the changed object is checked each time, because the other objects are as they were.
    """
    count = 0
    assert list(allowed_fields.check(overlay, ())) == []
    facts = allowed_fields.facts(overlay)
    for manifest in overlay.manifests:
        data = copy.deepcopy(manifest.data)
        attacked = Manifest(data)
        for location in mappings(manifest.data):
            if {*location[-1:]} & {*FREE} or location[-2:] == ("labelSelector", "matchLabels"):
                continue
            count += 1
            at(data, location)["unknown"] = "x"
            unlisted = list(allowed_fields.judged(overlay, attacked, facts, ()))
            del at(data, location)["unknown"]
            assert unlisted, (overlay.name, str(manifest), location)
            assert all(part.location == (*location, "unknown") for part in unlisted)
    return count


def test_unknown_key_is_reported_in_every_mapping(
    overlays: tuple[RenderedOverlay, ...], exposed: RenderedOverlay
) -> None:
    for overlay in (next(overlay for overlay in overlays if overlay.name == "servers"), exposed):
        assert check_every_mapping(overlay) > 40


@pytest.mark.thorough
def test_unknown_key_is_reported_in_every_mapping_of_a_model_with_every_key(tmp_path: Path, kubectl: Path) -> None:
    loaded = load(everything.write(tmp_path / "model"))
    assert sum(check_every_mapping(overlay) for overlay in rendered(tmp_path / "out", loaded, kubectl)) > 500


ATTACKED = """\
  runtimeClassName: kata
  schedulerName: mine
  nodeName: node-1
  hostAliases: [{ip: 10.6.6.6, hostnames: [registry]}]
  tolerations: [{operator: Exists}]
  priorityClassName: system-cluster-critical
"""
WORDS = {
    "annotation:sidecar.istio.io/userVolume",
    "label:app",
    "pod.spec.hostAliases",
    "pod.spec.nodeName",
    "pod.spec.priorityClassName",
    "pod.spec.runtimeClassName",
    "pod.spec.schedulerName",
    "pod.spec.tolerations",
}


def test_unlisted_fields_are_reported_and_permitted_by_allow(
    mlpack: Callable[..., Outcome], package: Path, kubectl: Path
) -> None:
    path = package / SINGLE / "pod.yaml"
    text = path.read_text(encoding="utf-8").replace("spec:\n", f"spec:\n{ATTACKED}", 1)
    text = text.replace("  annotations:\n", "  annotations:\n    sidecar.istio.io/userVolume: '[]'\n", 1)
    path.write_text(text.replace("  labels:\n", "  labels:\n    app: others\n", 1), encoding="utf-8")
    with opened(package) as whole:
        seal(whole)
    done = mlpack("verify", package, "--kubectl", kubectl, "-o", "json")
    assert done.code == 5
    assert {problem["allow"] for problem in done.json["problems"]} == WORDS
    assert {problem["kind"] for problem in done.json["problems"]} == {"field"}
    assert all(f"--allow {problem['allow']} permits it" in problem["hint"] for problem in done.json["problems"])
    allowed = [argument for word in WORDS for argument in ("--allow", word)]
    assert mlpack("verify", package, "--kubectl", kubectl, *allowed).code == 0


def test_site_component_named_like_an_option_is_not_that_option(package: Path, kubectl: Path) -> None:
    """Only a component in the folder of the options is an option; its name alone is not enough."""
    ours = package / "quickstart/site/service-account"
    ours.mkdir(parents=True)
    (ours / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n"
        "  - target: {kind: Pod}\n    patch: |-\n"
        "      - {op: add, path: /spec/serviceAccountName, value: admin}\n"
    )
    overlay = package / SINGLE / "kustomization.yaml"
    text = overlay.read_text().replace("components:\n", "components:\n  - ../../../site/service-account\n", 1)
    overlay.write_text(text)
    with opened(package) as whole:
        seal(whole)
    with opened(package) as whole:
        problems = verify(whole, Checks((str(kubectl),), ("1.36",))).problems
    assert [problem.allow for problem in problems] == ["ServiceAccount"], problems


def test_invalid_allow_word_is_refused(mlpack: Callable[..., Outcome], hello_mpi: Path) -> None:
    for word in ("*", "Pod.spec.hostname", "pod", "pod.", "pod.spec[0]", "label:", "annotation:a/b/c", "pod.spec..x"):
        done = mlpack("verify", hello_mpi, "--allow", word)
        assert (done.code, done.stderr) == (2, f"error: --allow {word}: {words.EXPECTED}\n")


@pytest.mark.parametrize(
    ("word", "complaint", "hint"),
    [
        ("pod.spec.hostAliazes", "Pod has no field 'spec.hostAliazes': unknown field 'hostAliazes'", "'hostAliases'"),
        ("pod.spec.volumes.hostPath", "Pod has no field 'spec.volumes.hostPath': unknown field 'hostPath'", ""),
    ],
)
def test_allow_word_with_unknown_field_is_refused(
    word: str, complaint: str, hint: str, mlpack: Callable[..., Outcome], hello_mpi: Path
) -> None:
    done = mlpack("verify", hello_mpi, "--allow", word)
    assert (done.code, done.stderr.splitlines()[0]) == (2, f"error: --allow {word}: {complaint}")
    assert hint in done.stderr


def test_table_names_only_existing_options_and_keys() -> None:
    for row in table.rows():
        assert set(row.options) <= set(KNOWN), row
        rule, _, argument = row.value.partition(":")
        assert rule != "env" or argument in KEYS, row
        assert len(row.who) == 1 or not {table.BUILD, *table.ELSEWHERE} & set(row.who), row
    assert len(set(table.rows())) == len(table.rows())


def test_table_has_rows_for_exactly_the_made_kinds() -> None:
    kinds_listed = {row.where for row in table.rows()} - set(table.PARTS) - {"secret"}
    made = {kind.lower() for _, kind in objects.MADE}
    missing, unknown = made - kinds_listed, kinds_listed - made
    assert not missing, f"packager/kubernetes/allowed/fields.txt has no rows for the kinds {', '.join(missing)}"
    assert not unknown, (
        f"packager/kubernetes/allowed/fields.txt has rows for {', '.join(unknown)}, which no build makes"
    )
