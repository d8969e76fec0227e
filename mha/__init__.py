"""The package behind *Many Heads*, a course on multi-head attention: see the notebooks."""

__version__ = "0.1.0"
