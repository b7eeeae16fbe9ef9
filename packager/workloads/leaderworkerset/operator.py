"""Operator of LeaderWorkerSets: LeaderWorkerSet's controller. Tests: cluster/test_operator.py."""

from packager.workloads.operator import Operator

# The manifest is what `kustomize build config/default` makes of the tag v0.10.0, with the image of the release, to the
# byte with every kubectl from 1.30 on. The controller makes the certificate of its webhooks itself
# (internalCertManagement). The name of its lease is in api/config/v1alpha1/defaults.go there; how long it holds is
# controller-runtime's.
LWS = Operator(
    short="lws",
    name="LeaderWorkerSet",
    deployment="lws-controller-manager",
    lease="b8b2488c.x-k8s.io",
    lease_seconds=15,
    version="v0.10.0",
    url="https://github.com/kubernetes-sigs/lws/releases/download/v0.10.0/manifests.yaml",
    sha256="ee18d9fe39339a14e3822a8614081f288f063fb2b836410915d4dbeba329fac8",
    kind="LeaderWorkerSet",
    crd="leaderworkersets.leaderworkerset.x-k8s.io",
    api="leaderworkerset.x-k8s.io/v1",
    edit_role=None,
    rival=None,
    tested="v0.9.0",  # the newest that is also a Go module, which the test cluster is built from
)
