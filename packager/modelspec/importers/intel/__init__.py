"""Specs of Intel's Model Zoo: slices of a pool of files, which the zoo's assembler combines into packages."""

from packager.modelspec.importers.intel.read import ZooChoices, read, spec_files

__all__ = ["ZooChoices", "read", "spec_files"]
