"""MPIJob: a launcher and its workers."""
