"""JobSet: pods in roles on several nodes, which find each other by name (jobset.x-k8s.io/v1alpha2)."""
