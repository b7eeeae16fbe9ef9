"""The processes of the cluster: their arguments, and how they are started, stopped and checked."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.errors import ClusterError, ToolError
from tests.testbed.kubectl import kubectl
from tests.testbed.node import ADDRESS, API_PORT, Node
from tests.testbed.places import IMAGE_VOLUMES, NAME, RUN
from tests.testbed.process import run

_CREDENTIALS = "/run/credentials"
_KUBERNETES = "/run/bin/kubernetes"
_OPERATORS = "/run/bin/operators"

_PATIENCE = 180.0
"""The timeout in seconds for a component on a busy machine; a component that ends is detected at once."""
_LOOKS = 5
_MOUNT_PROGRAM = "100005"
"""The number of the program in RPC (RFC 1813); some machines lack the list with its name."""
_LINES_SHOWN = 15


@dataclass(frozen=True)
class Component:
    """A process of the node."""

    name: str  # for messages and commands
    argv: tuple[str, ...]  # the program and its arguments, with paths on the node
    port: int | None = None  # on which it listens when it is up; None if it listens on none
    ready: Callable[[Node], bool] = lambda _: True  # a further check; returns False or raises ToolError

    @property
    def log(self) -> Path:
        """The path of its log."""
        return RUN / "var" / "log" / f"{self.name}.log"

    @property
    def stopped(self) -> Path:
        """A file that exists while the component must stay stopped."""
        return RUN / "stopped" / self.name

    def pid(self, node: Node) -> int | None:
        """Return its process id on the machine: that of the node's process with these arguments.

        The shell that is about to execute the component has more arguments before them.
        """
        arguments = list(self.argv)
        return next((pid for pid, argv in node.processes() if argv[-len(arguments) :] == arguments), None)

    def start(self, node: Node) -> None:
        """Start the component, unless it runs."""
        self.stopped.unlink(missing_ok=True)
        if self.pid(node) is None:
            detached = 'setsid "$@" >>"$0" 2>&1 </dev/null &'
            run(node.enter("sh", "-c", detached, f"/var/log/{self.name}.log", *self.argv))

    def stop(self, node: Node) -> None:
        """Kill the component, and keep it stopped until `start`.

        After SIGTERM, the API server would wait for a minute. A killed process loses its arguments, by which it is
        known, before its sockets: its port has to be free for the next start.
        """
        self.stopped.parent.mkdir(exist_ok=True)
        self.stopped.touch()
        deadline = time.monotonic() + _PATIENCE
        while (pid := self.pid(node)) or (self.port and node.listens(self.port) and time.monotonic() < deadline):
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def is_up(self, node: Node) -> bool:
        """Return whether the component is up."""
        if self.pid(node) is None or (self.port is not None and not node.listens(self.port)):
            return False
        with suppress(ToolError):
            return self.ready(node)
        return False

    def wait(self, node: Node) -> None:
        """Wait until the component is up.

        Raises:
            ClusterError: The component ended, or the timeout has passed.
        """
        deadline = time.monotonic() + _PATIENCE
        missed = 0
        while not self.is_up(node):
            # In the middle of an exec a process has no arguments to be known by: one look that misses it proves little.
            missed = 0 if self.pid(node) else missed + 1
            ended = missed > _LOOKS
            if ended or time.monotonic() > deadline:
                what = "has ended" if ended else f"is not up after {_PATIENCE:.0f} s"
                lines = self.log.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
                raise ClusterError("\n  ".join([f"{self.name} {what}; the end of {self.log}:", *lines]))
            time.sleep(0.1)


def _containerd_answers(node: Node) -> bool:
    return bool(run(node.enter("ctr", "version")))


def _folders_can_be_mounted(node: Node) -> bool:
    """Return whether the program that clients ask to mount a folder is registered at rpcbind and answers."""
    return bool(run(node.enter("rpcinfo", "-T", "tcp", "127.0.0.1", _MOUNT_PROGRAM, "3")))


def _api_server_is_ready(_: Node) -> bool:
    return bool(kubectl("get", "--raw=/readyz"))


def _node_is_ready(_: Node) -> bool:
    ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    return kubectl("get", "node", "node", f"--output={ready}") == "True"


def _pods_may_be_created(_: Node) -> bool:
    """Return whether the controllers have created the default service account, without which no pod can be created."""
    return bool(kubectl("get", "serviceaccount", "default"))


def _mpi_operator_leads(_: Node) -> bool:
    return bool(kubectl("get", "lease", "mpi-operator", "--namespace=mpi-operator"))


def _jobset_leads(_: Node) -> bool:
    return bool(kubectl("get", "lease", "6d4f6a47.jobset.x-k8s.io", "--namespace=jobset-system"))


def _lws_leads(_: Node) -> bool:
    return bool(kubectl("get", "lease", "b8b2488c.x-k8s.io", "--namespace=lws-system"))


ETCD = Component(
    "etcd",
    (
        "/usr/bin/etcd",
        "--data-dir=/var/lib/etcd",
        "--unsafe-no-fsync",  # the data of this cluster need not survive a power cut
        "--logger=zap",
        "--log-level=warn",
    ),
    port=2379,
)
CONTAINERD = Component(
    "containerd",
    (
        "/run/bin/containerd/containerd" if IMAGE_VOLUMES else "/usr/bin/containerd",
        "--config=/run/config/containerd.toml",
    ),
    ready=_containerd_answers,
)
NFS_SERVER = Component(
    "nfs-server",
    ("/usr/bin/ganesha.nfsd", "-F", "-f", "/run/config/ganesha", "-L", "STDERR", "-p", "/run/nfs-server.pid"),
    port=2049,
    ready=_folders_can_be_mounted,
)
API_SERVER = Component(
    "kube-apiserver",
    (
        f"{_KUBERNETES}/kube-apiserver",
        f"--advertise-address={ADDRESS}",
        "--allow-privileged",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={_CREDENTIALS}/ca.crt",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-aggregator-routing",  # to a webhook's pods: without kube-proxy, its Service leads nowhere
        "--etcd-servers=http://127.0.0.1:2379",
        "--feature-gates=MutatingAdmissionPolicy=true",  # served by default from Kubernetes 1.36 on
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        f"--kubelet-client-certificate={_CREDENTIALS}/admin.crt",
        f"--kubelet-client-key={_CREDENTIALS}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",  # or logs and exec look for a host called `node`
        f"--secure-port={API_PORT}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={_CREDENTIALS}/service-accounts.key",
        f"--service-account-signing-key-file={_CREDENTIALS}/service-accounts.key",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--tls-cert-file={_CREDENTIALS}/kube-apiserver.crt",
        f"--tls-private-key-file={_CREDENTIALS}/kube-apiserver.key",
    ),
    port=API_PORT,
    ready=_api_server_is_ready,
)
CONTROLLER_MANAGER = Component(
    "kube-controller-manager",
    (
        f"{_KUBERNETES}/kube-controller-manager",
        f"--kubeconfig={_CREDENTIALS}/kube-controller-manager.conf",
        "--leader-elect=false",  # there is one: after a restart it need not wait for its predecessor's lease to end
        f"--root-ca-file={_CREDENTIALS}/ca.crt",
        f"--service-account-private-key-file={_CREDENTIALS}/service-accounts.key",
        "--use-service-account-credentials",  # the roles that Kubernetes brings along are for each controller by itself
    ),
    port=10257,
    ready=_pods_may_be_created,
)
SCHEDULER = Component(
    "kube-scheduler",
    (f"{_KUBERNETES}/kube-scheduler", f"--kubeconfig={_CREDENTIALS}/kube-scheduler.conf", "--leader-elect=false"),
    port=10259,
)
KUBELET = Component(
    "kubelet",
    (
        f"{_KUBERNETES}/kubelet",
        f"--cgroup-root=/{NAME}",
        "--config=/run/config/kubelet.yaml",
        f"--kubeconfig={_CREDENTIALS}/kubelet.conf",
        f"--node-ip={ADDRESS}",
    ),
    port=10250,
    ready=_node_is_ready,
)
COREDNS = Component("coredns", (f"{_KUBERNETES}/coredns", "-conf=/run/config/Corefile"), port=53)
MPI_OPERATOR = Component(
    "mpi-operator",
    (f"{_OPERATORS}/mpi-operator", f"-kubeConfig={_CREDENTIALS}/admin.conf"),
    port=8080,
    ready=_mpi_operator_leads,
)
JOBSET = Component(
    "jobset",
    (f"{_OPERATORS}/jobset", "--config=/run/config/jobset.yaml", f"--kubeconfig={_CREDENTIALS}/admin.conf"),
    port=9443,
    ready=_jobset_leads,
)
LWS = Component(
    "lws",
    (f"{_OPERATORS}/cmd", "--config=/run/config/lws.yaml", f"--kubeconfig={_CREDENTIALS}/admin.conf"),
    port=9445,
    ready=_lws_leads,
)
KUEUE = Component(
    "kueue",
    (f"{_KUBERNETES}/kueue", "--config=/run/config/kueue.yaml", f"--kubeconfig={_CREDENTIALS}/admin.conf"),
    port=9444,
)

COMPONENTS = (
    ETCD,
    CONTAINERD,
    NFS_SERVER,
    API_SERVER,
    CONTROLLER_MANAGER,
    SCHEDULER,
    KUBELET,
    COREDNS,
    MPI_OPERATOR,
    JOBSET,
    LWS,
    KUEUE,
)
