"""A kind that only a test has: everything that one more kind brings, and what the verbs do with it."""
