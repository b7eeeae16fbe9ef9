"""MxJob and MXJob: the custom resources of the MXNet operators, which no operator serves any more."""

from packager.modelspec.importers.mxjob.read import read

__all__ = ["read"]
