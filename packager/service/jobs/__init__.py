"""Jobs: their creation, application to the cluster and control loop, and their stored logs and curves."""
