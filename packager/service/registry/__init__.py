"""Templates and definitions: their registration, and the rendering of filled values to objects."""
