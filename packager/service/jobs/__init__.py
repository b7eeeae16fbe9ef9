"""Jobs: created, applied to the cluster, followed, their logs and curves kept."""
