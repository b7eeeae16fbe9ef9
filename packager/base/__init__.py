"""Contains modules that all other folders use; none of them depends on packages."""
