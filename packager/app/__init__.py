"""Contains the use cases behind the commands: they take and return values, and use no terminal."""
