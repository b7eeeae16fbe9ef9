"""One module for each version of the schema; the statements of a released version are never changed."""
