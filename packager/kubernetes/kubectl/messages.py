"""Lists the messages of API servers and kubectl by which errors are recognized.

Tests: kubernetes/kubectl/test_client.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from packager.base.errors import ClusterError, KubeletError, NotEvaluatedError
from packager.kubernetes.remedy import Action
from packager.kubernetes.verdict import NEVER

CONTROLLER_PATIENCE = 15.0
"""Seconds for which controllers repeat a refused request: a role or a missing object may still be created."""

UNREACHABLE = re.compile(
    r"connection refused|unable to connect|i/o timeout|no route to host|network is unreachable|no such host"
    r"|tls handshake timeout|context deadline exceeded|client rate limiter|connection reset|unexpected eof|: eof"
    r"|server is currently unable to handle|etcdserver|did not (end|finish) within|apiserver not ready"
    r"|serviceunavailable"
    r"|http2: client connection lost|server \S+ was refused|request timed out|\(timeout\)|\(toomanyrequests\)"
    r"|in the time allotted|storage is \(re\)initializing|an error on the server|client.timeout exceeded"
    r"|code = (unavailable|canceled|aborted)|server sent goaway|context canceled|client connection is closing"
    r"|http: handler timeout|too many requests|stream error: |broken pipe|connection timed out|server is shutting down"
    r"|not yet ready to handle request",
    re.IGNORECASE,
)
"""Messages about a missing response of the API server."""

ANSWERED = re.compile(
    r"Error from server \((?!InternalError|ServiceUnavailable|Timeout|ServerTimeout|TooManyRequests)"
    r"(?!.*not yet ready to handle request)"
)
"""Messages of the API server, which may quote connection errors of another component."""

NO_SERVER = "no/cluster"
"""The server that kubectl uses when no kubeconfig names one. It is not an address, so kubectl sends nothing."""

NO_CLUSTER = re.compile(
    rf"host must be a URL or a host:port pair: \"{NO_SERVER}\"|no configuration has been provided"
    r"|missing or incomplete configuration info",
    re.IGNORECASE,
)

NO_CURRENT_CONTEXT = re.compile(r"current-context must exist in order to minify")

NO_CONTEXT = re.compile(
    r"not found for specified context: (\S+)|context \"(\S+)\" does not exist|cannot locate context (\S+)"
)
"""Messages about a missing context, which differ between the verbs of kubectl."""

NO_VALIDATION = re.compile(r"; if you choose to ignore these errors, turn validation off with --validate=false")
"""kubectl's advice if it cannot read the schemas: a flag that mlpack does not have."""

NOT_STARTED = re.compile(r"is waiting to start|is not available|ContainerCreating|PodInitializing|has not started")
"""There is no log yet (pkg/registry/core/pod/strategy.go, pkg/kubelet/kubelet_pods.go)."""

NO_RESOURCE = re.compile(r"the server doesn't have a resource type \"([^\"]+)\"")

NO_KIND = re.compile(r'no matches for kind "(\w+)" in version "([^"]+)"')

NO_OBJECT = re.compile(r"\(NotFound\)|\bNotFound\b|could not find the requested resource")

NO_NAMESPACE = re.compile(r'namespaces? "([^"]+)" not found')

NO_POD = re.compile(r'pods "[^"]*" not found')

NO_PREVIOUS_CONTAINER = re.compile(r"previous terminated container .* not found")

ALREADY_EXISTS = re.compile(r"\(AlreadyExists\)")

UID_CHANGED = re.compile("UID in the precondition")

NO_RIGHT = re.compile(
    r'is forbidden: User ".+" cannot (?P<verb>\w+)'
    r'(?: resource "(?P<resource>[^"]+)"(?: in API group "(?P<group>[^"]*)")?(?:.*(?P<all>at the cluster scope))?)?'
)
"""Messages about a missing permission, to distinguish them from refusals of admission, also called forbidden."""

FORBIDDEN = re.compile(r"forbidden", re.IGNORECASE)

PREREQUISITE_MISSING = re.compile(r"\A(?=.*(namespaces|serviceaccount)).*not found", re.DOTALL)
"""Messages about a missing namespace or service account of a pod."""

TRIAL_POD_PREFIX = re.compile(
    r'error when creating "[^"]+": |(The )?pods "mlpack-doctor-[^"]*" is (forbidden|invalid): (: )?'
)
"""The text before the reason why a pod that doctor tried was refused; a MutatingAdmissionPolicy names no field."""

HIDDEN_FROM_USER = re.compile(r"\((Forbidden|NotFound)\)|is forbidden")
"""Messages to a user who may not read the state of the server."""

CANNOT_EVALUATE = re.compile(
    r'is forbidden: user|namespaces? "[^"]*" not found|no matches for kind|no such file or directory'
    r"|invalid configuration|ensure crds are installed",
    re.IGNORECASE,
)
"""Messages of a server that could not evaluate a manifest, in addition to UNREACHABLE and TROUBLES."""

CONFLICT = re.compile(r'conflicts? with "([^"]+)"[^:]*:((?:\s+(?:-\s*)?\.\S+)+)')

SERVER = re.compile(r"^(Error from server( \(\w+\))?|Unable to connect to the server|unable to upgrade connection): ")
"""The prefix of kubectl before a server's message; the last is that of exec, from 1.36 on also of a refusal."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error whose message resembles that of an unreachable cluster, but has another cause."""

    pattern: re.Pattern[str]  # the pattern of the message
    meaning: str  # the explanation of the error
    hint: str  # the fix
    # the kind of error: the cluster has not evaluated the request, except if a webhook failed
    error: type[ClusterError] = NotEvaluatedError


TROUBLES = (
    Trouble(
        re.compile(r"failed (calling|to call) webhook|conversion webhook for .+ failed"),
        "a webhook of the cluster fails",
        "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations; ask the cluster administrator",
        error=ClusterError,
    ),
    Trouble(
        re.compile(r"mvcc: database space exceeded"),
        "the cluster accepts no changes: its etcd is full",
        "ask the cluster administrator to free space in etcd and disarm the alarm",
    ),
    Trouble(
        re.compile(r"error dialing backend|https://[^/\s\"]+:10250/"),
        "the kubelet of the pod's node does not answer",
        "kubectl get nodes",
        error=KubeletError,
    ),
    Trouble(
        re.compile(r"getting credentials: "),
        "the login program of the kubeconfig failed",
        "kubectl config view --minify",
    ),
    Trouble(
        re.compile(r"You must be logged in|\(Unauthorized\)|\bUnauthorized$|provide credentials|remote error: tls: "),
        "the cluster rejects your credentials",
        "log in again; kubectl config view --minify shows the user",
    ),
    Trouble(
        re.compile(r"x509: |tls: (?!handshake)|HTTP response to HTTPS client|malformed HTTP response"),
        "the server's certificate is not valid for this cluster",
        "correct server and certificate-authority of the kubeconfig: kubectl config view --minify",
    ),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of refusal."""

    reason: str  # the reason in one word
    pattern: re.Pattern[str]  # the pattern of the server's message, joined to one line
    action: Action  # the action that helps; its values are groups of the pattern
    message: str | None = None  # the message that replaces the server's; None for the server's message
    final_after: float = 0  # seconds after which the refusal counts as permanent


# The first match counts. Sources: k8s.io/pod-security-admission, and k8s.io/apiserver and
# k8s.io/kubernetes/plugin/pkg/admission: policy/validating, webhook/errors, limitranger, resourcequota, priority,
# serviceaccount, runtimeclass, namespace/lifecycle.
REFUSALS = (
    Refusal(
        "PodSecurity",
        re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<how>.*)'),
        Action.MEET_LEVEL,
        "the namespace enforces Pod Security {level}, and the pods violate it: {how}",
    ),
    Refusal(
        "QuotaExceeded",
        re.compile(r"^(?=.*must specify)(?=.*failed quota)", re.MULTILINE),
        Action.SET_REQUESTS,
    ),
    Refusal(
        "PolicyDenied",
        re.compile(r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '[^']+' denied request: ?(?P<why>.*)"),
        Action.CHANGE_FOR_POLICY,
        "the policy {policy} of the cluster denies it: {why}",
    ),
    Refusal(
        "PolicyDenied",
        re.compile(r'admission webhook "(?P<policy>[^"]+)" denied the request(?: without explanation|: (?P<why>.*))'),
        Action.CHANGE_FOR_WEBHOOK,
    ),
    Refusal(
        "WebhookFailed",
        re.compile(r'failed (?:calling|to call) webhook "(?P<policy>[^"]+)"'),
        Action.REPAIR_WEBHOOK,
        final_after=NEVER,
    ),
    Refusal(
        "LimitRange",
        re.compile(
            r"((?:minimum|maximum) [\w./-]+ usage per (?:Container|Pod|PersistentVolumeClaim) is .+"
            r"|\S+ max limit to request ratio per \w+ is .+)"
        ),
        Action.KEEP_LIMIT_RANGE,
    ),
    Refusal(
        "NoServiceAccount",
        re.compile(r"error looking up service account [^/\s]+/(?P<name>[^:\s]+)"),
        Action.CREATE_SERVICE_ACCOUNT,
        final_after=CONTROLLER_PATIENCE,
    ),
    Refusal(
        "NoPriorityClass",
        re.compile(r"no PriorityClass with name (?P<name>\S+) was found"),
        Action.CHOOSE_PRIORITY_CLASS,
    ),
    Refusal(
        "NoRuntimeClass",
        re.compile(r'RuntimeClass "(?P<name>[^"]+)" not found'),
        Action.CHOOSE_RUNTIME_CLASS,
    ),
    Refusal(
        "NamespaceTerminating",
        re.compile(r"in namespace (?P<name>\S+) because it is being terminated"),
        Action.RECREATE_NAMESPACE,
    ),
    Refusal(
        "Forbidden",
        re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'),
        Action.GET_PERMISSION,
        final_after=CONTROLLER_PATIENCE,
    ),
    Refusal(
        "Forbidden",
        re.compile(r"is forbidden|denied the request"),
        Action.ASK_ADMINISTRATOR,
        final_after=CONTROLLER_PATIENCE,
    ),
)

QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<limit>.+)"
)
