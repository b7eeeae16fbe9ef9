"""MLCube: a `mlcube.yaml` of configuration 2.0, with tasks that read and write files in a workspace."""

from packager.modelspec.importers.mlcube.read import Choices, overlay_of, read

__all__ = ["Choices", "overlay_of", "read"]
