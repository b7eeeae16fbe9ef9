"""A package in a cluster: brought there, followed, and what has become of it, by the user's own kubectl."""
