"""Who may do what: tokens, sessions, people of an issuer, projects."""
