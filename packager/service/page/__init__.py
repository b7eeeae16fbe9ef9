"""The page of the task service: views for people, which call the same use cases as the API, under the same rules."""
