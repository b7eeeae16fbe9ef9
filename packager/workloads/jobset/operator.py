"""Operator of JobSets: JobSet's controller. Tests: cluster/test_operator.py."""

from packager.workloads.operator import Operator

# The manifest is what `kustomize build config/default` makes of the module sigs.k8s.io/jobset@v0.12.0, with the image
# of the release: tests/e2e/test_operator.py renders it, to the byte, and installs it. The controller makes the
# certificate of its webhooks itself (internalCertManagement). The name of its lease is in
# api/config/v1alpha1/defaults.go there; how long it holds is controller-runtime's.
JOBSET = Operator(
    short="jobset",
    name="JobSet",
    deployment="jobset-controller-manager",
    lease="6d4f6a47.jobset.x-k8s.io",
    lease_seconds=15,
    version="v0.12.0",
    url="https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml",
    sha256="a41aaf12dd0b7b0a3d626b8d6107f32c3dc889d7e7830adc46b8cdb77a8963bb",
    kind="JobSet",
    crd="jobsets.jobset.x-k8s.io",
    api="jobset.x-k8s.io/v1alpha2",
    edit_role=None,
    rival=None,
)
