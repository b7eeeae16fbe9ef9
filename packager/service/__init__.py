"""The task service: admins register templates, users define tasks over them and fill in values, which makes jobs."""
