"""Templates and definitions: what they describe, and the objects that they become with filled values."""
