"""When two answers are the same, and where they first differ."""

import inspect
import numbers
from typing import Any

import torch


class Raised(str):
    """An error as an outcome: its kind and its message; `inside`, if the answer's lines had begun."""

    inside = False


class Odd(str):
    """A value that cannot be compared, in words."""


def plain(value: Any) -> Any:
    """A value made of tensors on the CPU, tuples, lists and numbers; what cannot be one is said in words."""
    if isinstance(value, torch.Tensor):
        if value.is_meta or value.is_complex() or value.is_quantized or value.is_nested:
            return Odd(f"a tensor of {value.dtype} on {value.device}")
        return value.detach().to_dense().cpu()
    if isinstance(value, tuple):  # a named one, too
        return tuple(map(plain, value))
    if type(value) is list:
        return list(map(plain, value))
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it
    if isinstance(value, int) and abs(value) > 10**100:
        return Odd("a whole number of more than 100 digits")
    if isinstance(value, numbers.Real) and type(value) not in (bool, int, float):
        return float(value)
    return value


# Equally right forms of an answer, brought into one.


def whole(count: Any) -> Any:
    """A number, also from a tensor or an array that holds one, or a float that is whole."""
    count = count.item() if hasattr(count, "item") and getattr(count, "ndim", None) == 0 else count
    return int(count) if isinstance(count, float) and count.is_integer() else count


def one_tensor(found: Any) -> Any:
    """A list of numbers is as good as a tensor."""
    if isinstance(found, list | tuple) and all(isinstance(x, int | float | torch.Tensor) for x in found):
        found_numbers = [float(x) for x in found if not isinstance(x, torch.Tensor) or x.numel() == 1]
        return torch.tensor(found_numbers) if len(found_numbers) == len(found) else found
    return found


def equal(a: Any, b: Any, tolerance: float = 1e-4) -> bool:
    """Same kind, shape and numbers up to rounding, coarser in half precision; of other things, the same kind."""
    if isinstance(a, tuple | list) and type(a) is type(b):
        return len(a) == len(b) and all(equal(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        same_kind = (a.dtype == torch.bool) == (b.dtype == torch.bool)
        return a.shape == b.shape and same_kind and not unequal(a, b, tolerance).any()
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) <= 1e-6 * max(1, abs(b)) or (a != a and b != b)
    return type(a) is type(b) and (not isinstance(a, str | set) or a == b)


def unequal(a: torch.Tensor, b: torch.Tensor, tolerance: float = 1e-4) -> torch.Tensor:
    """True where two tensors of one shape differ by more than rounding."""
    tolerance = 2e-2 if torch.float16 in (a.dtype, b.dtype) else tolerance
    return ~torch.isclose(a.double(), b.double(), tolerance, tolerance, equal_nan=True)


def pairs(mine: Any, want: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The tensors of two answers, side by side."""
    together = zip(mine, want, strict=False) if isinstance(mine, tuple) and isinstance(want, tuple) else [(mine, want)]
    return [(a, b) for a, b in together if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)]


def describe(value: Any) -> str:
    """A value in a few words: what it is, before the comma, and its size."""
    if isinstance(value, Odd):
        return str(value)
    if isinstance(value, tuple | list):
        first = f", such as {describe(value[0])}" if len(value) and not isinstance(value[0], tuple | list) else ""
        first = f" {type(value[0]).__name__}s" if len(value) and not first else first
        return f"a {type(value).__name__} of {len(value)}{first}"
    if isinstance(value, torch.Tensor):
        return f"a tensor of {'booleans' if value.dtype == torch.bool else 'numbers'}, shape {tuple(value.shape)}"
    if value is None:
        return "None"
    name = {"ndarray": "NumPy array"}.get(type(value).__name__, type(value).__name__)
    named = {bool: "a bool", int: "a whole number", float: "a number"}
    return named.get(type(value), f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}")
