"""The groups of trials, one module each."""
