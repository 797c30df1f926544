"""Speed measurements of gvfx, each against a bar; see README.md here."""
