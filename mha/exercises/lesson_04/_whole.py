"""What the counts and shares of this lesson have in common."""


def whole(count):
    """A number, also from a tensor or an array that holds one."""
    return count.item() if hasattr(count, "item") and getattr(count, "size", None) and count.ndim == 0 else count
