"""Compiled code kept on disk, so that a second start does not compile again."""
