"""Builds a package: Spec -> Plan -> Tree."""
