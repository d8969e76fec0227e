"""The name under which lessons import the drawing of a whole Transformer."""

from mha.figures.architecture import transformer

__all__ = ["transformer"]
