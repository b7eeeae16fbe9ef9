"""One module for each version of the schema; a released one is never changed."""
