"""Publishes packages in registries: the client, the credentials, and the artefact that a package becomes."""
