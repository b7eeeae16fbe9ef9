"""Callers and their permissions: tokens, sessions, people of an issuer, projects."""
