"""The page of the task service: the views for people. They call what the API calls, so the same rules hold."""
