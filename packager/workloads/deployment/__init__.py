"""Deployment: replicas of one program that serve until they are deleted."""
