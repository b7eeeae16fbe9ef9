"""Deployment: replicas of one program that serve until somebody deletes them."""
