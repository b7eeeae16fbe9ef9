"""Reads a site's defaults: what the packages of a site have in common."""
