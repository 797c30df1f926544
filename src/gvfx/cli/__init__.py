"""The command line: one module per family of commands.  Heavy modules are imported in command bodies, so --help is instant."""

from gvfx.cli.application import app, main

__all__ = ["app", "main"]
