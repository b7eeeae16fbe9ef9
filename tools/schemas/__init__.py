"""The schemas that `mlpack verify` checks against, made from what Kubernetes and the operators publish."""
