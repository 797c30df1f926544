"""Worlds: where experience comes from."""
