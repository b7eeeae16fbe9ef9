"""Works with a package in a cluster through the user's own kubectl: deploys, follows and diagnoses it."""
