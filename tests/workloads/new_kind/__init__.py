"""A kind that only a test has: its folder, and the verbs' tests of it."""
