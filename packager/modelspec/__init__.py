"""A model spec: its types (`model`), loading (`load`), checks (`check`) and search (`catalog`)."""
