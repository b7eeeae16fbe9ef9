"""The manifests that deploy a server in a cluster."""
