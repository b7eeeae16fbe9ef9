"""Fields that exceed a Pod Security level: the message and the place of each, and the level of the pod."""

from __future__ import annotations

from packager.kubernetes.podsecurity import Level
from packager.verify import schema
from packager.verify.security import breaches, by_version, exceeded, level
from tests import written

POD = """\
kind: Pod
metadata: {name: p}
spec:
  containers:
    - name: main
      securityContext:
        allowPrivilegeEscalation: false
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
        capabilities: {drop: [ALL]}
"""
APPARMOR = "container.apparmor.security.beta.kubernetes.io"


def pod(old: str, new: str) -> str:
    """Return the pod with `old` replaced by `new`; if `old` is empty, with `new` at the end."""
    assert old in POD
    return POD.replace(old, new) if old else f"{POD}{new}\n"


def level_and_breaches(text: str) -> tuple[str, list[str]]:
    """Return the level that a manifest meets, and each breach of the level "restricted"."""
    fields = exceeded(written.overlay(text))
    return level(fields), [str(problem) for problem in breaches(fields, Level.restricted)]


def breach(allowed: str, place: str, field: str, why: str) -> str:
    """Return the message about a field for which `allowed` is the strictest level that permits it."""
    hint = f'"{allowed}" allows it: use such a namespace, or switch off the option that adds it'
    return f'file.yaml:{place}: Pod p: {field}: {why}, which Pod Security "restricted" forbids ({hint})'


def test_restricted_pod_has_no_breaches() -> None:
    assert level_and_breaches(POD) == ("restricted", [])


CONTAINER = "spec.containers[0]"
CONTEXT = f"{CONTAINER}.securityContext"


UNSAFE = """\
kind: Pod
metadata: {name: p, annotations: {container.apparmor.security.beta.kubernetes.io/main: unconfined}}
spec:
  hostNetwork: true
  hostPID: true
  hostIPC: true
  volumes: [{name: v, hostPath: {path: /}}, {name: w, nfs: {server: s, path: /}}]
  securityContext: {seLinuxOptions: {role: r}}
  containers:
    - name: main
      ports: [{hostPort: 80}]
      securityContext:
        allowPrivilegeEscalation: true
        runAsNonRoot: false
        runAsUser: 0
        privileged: true
        windowsOptions: {hostProcess: true}
        capabilities: {drop: [KILL], add: [SYS_ADMIN, KILL]}
        seccompProfile: {type: Unconfined}
        appArmorProfile: {type: Unconfined}
        procMount: Unmasked
        seLinuxOptions: {type: spc_t}
        sysctls: [{name: net.ipv4.tcp_syncookies}, {name: kernel.msgmax}]
    - name: second
      securityContext: {seLinuxOptions: {user: u}}
"""
PRIVILEGED = [
    ("2:88", f"metadata.annotations.{APPARMOR}/main", "AppArmor is off"),
    ("4:16", "spec.hostNetwork", "shares the node's"),
    ("5:12", "spec.hostPID", "shares the node's"),
    ("6:12", "spec.hostIPC", "shares the node's"),
    ("7:33", "spec.volumes[0].hostPath", "a folder of the node"),
    ("8:37", "spec.securityContext.seLinuxOptions", "another SELinux label"),
    ("11:26", "spec.containers[0].ports[0].hostPort", "a port of the node"),
    ("16:21", f"{CONTEXT}.privileged", "has the node's own rights"),
    ("17:39", f"{CONTEXT}.windowsOptions.hostProcess", "a process of the node"),
    ("18:44", f"{CONTEXT}.capabilities.add[0]", "the capability SYS_ADMIN"),
    ("19:32", f"{CONTEXT}.seccompProfile.type", "seccomp is off"),
    ("20:33", f"{CONTEXT}.appArmorProfile.type", "AppArmor is off"),
    ("21:20", f"{CONTEXT}.procMount", "shows all of /proc"),
    ("22:25", f"{CONTEXT}.seLinuxOptions", "another SELinux label"),
    ("23:52", f"{CONTEXT}.sysctls[1]", "not one of the safe sysctls"),
    ("25:41", "spec.containers[1].securityContext.seLinuxOptions", "another SELinux label"),
]
BASELINE = [
    ("7:60", "spec.volumes[1].nfs", "a volume of this kind"),
    ("13:35", f"{CONTEXT}.allowPrivilegeEscalation", "expected false"),
    ("14:23", f"{CONTEXT}.runAsNonRoot", "expected true"),
    ("15:20", f"{CONTEXT}.runAsUser", "root"),
    ("18:30", f"{CONTEXT}.capabilities.drop", "expected ALL"),
    ("18:55", f"{CONTEXT}.capabilities.add[1]", "the capability KILL"),
    ("25:24", "spec.containers[1].securityContext.allowPrivilegeEscalation", "expected false"),
    ("25:24", "spec.containers[1].securityContext.capabilities.drop", "expected ALL"),
    ("25:24", "spec.containers[1].securityContext.seccompProfile", "expected RuntimeDefault"),
    ("25:24", "spec.containers[1].securityContext.runAsNonRoot", "expected true"),
]
"""The place, the field and the reason of each breach, by the strictest level that permits it."""


def test_fields_that_a_level_forbids_are_breaches() -> None:
    assert level_and_breaches(UNSAFE) == (
        "privileged",
        [
            *(breach("privileged", *row) for row in PRIVILEGED),
            *(breach("baseline", *row) for row in BASELINE),
        ],
    )


def test_field_that_every_level_allows_is_not_a_breach() -> None:
    for old, new in [
        ("[ALL]", "[ALL], add: [NET_BIND_SERVICE]"),
        ("RuntimeDefault", "Localhost"),
        ("", "        seLinuxOptions: {type: container_t, level: s0}"),
        ("", "        procMount: Default"),
        ("{name: p}", f"{{name: p, annotations: {{{APPARMOR}/main: localhost/ours}}}}"),
        ("spec:", "spec:\n  volumes: [{name: v, ephemeral: {}}]"),
        ("", "      ports: [{hostPort: 0}]"),
    ]:
        assert level_and_breaches(pod(old, new)) == ("restricted", [])


HOST = "{host: 10.6.6.6, port: 80}"
IN_NAMESPACE = ("spec:", "spec:\n  hostUsers: false")


def test_level_depends_on_the_kubernetes_version() -> None:
    for changes, levels in [
        *(
            ([("", f"      {probe}: {{{action}: {HOST}}}")], {"restricted": 33, "privileged": 37})
            for probe in ("livenessProbe", "readinessProbe", "startupProbe")
            for action in ("httpGet", "tcpSocket")
        ),
        *(
            ([("", f"      lifecycle: {{{hook}: {{{action}: {HOST}}}}}")], {"restricted": 33, "privileged": 37})
            for hook in ("postStart", "preStop")
            for action in ("httpGet", "tcpSocket")
        ),
        ([("", "      livenessProbe: {httpGet: {host: '', port: 80}}")], {"restricted": 37}),
        *(
            ([("spec:", f"spec:\n  securityContext: {{sysctls: [{{name: {name}}}]}}")], levels)
            for name, levels in {
                "net.ipv4.ip_local_reserved_ports": {"privileged": 26, "restricted": 37},
                "net.ipv4.tcp_keepalive_time": {"privileged": 28, "restricted": 37},
                "net.ipv4.tcp_rmem": {"privileged": 31, "restricted": 37},
                "net.ipv4.tcp_notsent_lowat": {"privileged": 36, "restricted": 37},
                "net.ipv4.tcp_syncookies": {"restricted": 37},
                "net.core.somaxconn": {"privileged": 37},
            }.items()
        ),
        ([("", "        seLinuxOptions: {type: container_engine_t}")], {"privileged": 30, "restricted": 37}),
        ([("", "        seLinuxOptions: {type: container_engine_t, user: x}")], {"privileged": 37}),
        ([("runAsNonRoot: true", "runAsUser: 0"), IN_NAMESPACE], {"baseline": 34, "restricted": 37}),
        ([("runAsNonRoot: true", "runAsUser: 0")], {"baseline": 37}),
        ([("", "        procMount: Unmasked"), IN_NAMESPACE], {"privileged": 34, "baseline": 37}),
        ([("", "        procMount: Unmasked")], {"privileged": 37}),
        ([("", "        appArmorProfile: {type: Unknown}")], {"privileged": 37}),
        ([("{type: RuntimeDefault}", "{type: Unknown}")], {"privileged": 37}),
    ]:
        text = POD
        for old, new in changes:
            text = text.replace(old, new, 1) if old else f"{text}{new}\n"
        versions = schema.versions()
        found_levels = by_version(exceeded(written.overlay(text)), versions)
        assert {str(name): int(those[-1].removeprefix("1.")) for name, those in found_levels.items()} == levels


def test_host_of_a_probe_is_reported_for_requested_versions_only() -> None:
    overlay = written.overlay(pod("", f"      livenessProbe: {{httpGet: {HOST}}}"))
    assert exceeded(overlay, ("1.32", "1.33")) == ()
    [old_and_new] = exceeded(overlay, ("1.33", "1.34"))
    assert (old_and_new.reason, old_and_new.versions) == (
        "the node asks another host than the pod (from Kubernetes 1.34 on)",
        ("1.34",),
    )
    [new] = exceeded(overlay, ("1.34", "1.35"))
    assert (new.field, new.reason) == (
        f"{CONTAINER}.livenessProbe.httpGet.host",
        "the node asks another host than the pod",
    )
