"""The demonstration server: a simulated cluster, and definitions and jobs to look at."""
