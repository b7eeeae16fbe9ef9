"""A model spec: its types (`model`), reading it (`load`), judging it (`check`), finding it (`catalog`)."""
