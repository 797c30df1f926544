"""Worlds: the environments that experience comes from."""
