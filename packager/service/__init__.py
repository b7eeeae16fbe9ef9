"""The task service: admins register templates, developers register definitions of tasks, and users create jobs."""
