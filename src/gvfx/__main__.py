"""`python -m gvfx` is `gvfx`."""

from gvfx.cli import main

if __name__ == "__main__":
    main()
