"""Tokens as labels of a drawing, and the sentence that runs through the course."""

from collections.abc import Iterable

SENTENCE = ("Maya", "fed", "her", "cat", ",", "twice")


def printable(tokens: Iterable[object]) -> list[str]:
    """Tokens as text that shows: blank ones and line breaks as Python writes them."""
    return [token if token.isprintable() and token.strip() else repr(token) for token in map(str, tokens)]


def short(token: str, most: int = 12) -> str:
    """A token as a label, cut with a sign that it was."""
    return token if len(token) <= most else token[: most - 1] + "…"
