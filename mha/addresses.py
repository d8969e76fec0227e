"""Numbers that say where they come from: feature f of token t is 100·t + f, and of text b 10,000 more for each text.

A tensor of them shows what a reshape does: wherever a number lands, it tells from where.  Source: notebook 03.
"""

import torch

BASE = 100  # tokens and features count to 99


def make(T: int, d: int, B: int | None = None) -> torch.Tensor:
    """Addresses (T, d), or (B, T, d) of B texts.  ValueError where two places would have one number."""
    if max(T, d) > BASE or (B or 1) > BASE:
        texts = "" if B is None else f"{B} texts of "
        raise ValueError(f"{texts}{T} tokens of {d} features have no addresses: at most {BASE} of each")
    one = BASE * torch.arange(T)[:, None] + torch.arange(d)
    return (one if B is None else BASE**2 * torch.arange(B)[:, None, None] + one).float()  # below 2²⁴, so exact


def split(address: float) -> tuple[int, int, int]:
    """The (text, token, feature) that this address names.  ValueError for a number that is none."""
    if address != address or address < 0 or address % 1:
        raise ValueError(f"{address} is no address: wanted a whole number from 0")
    text, rest = divmod(int(address), BASE**2)
    return text, *divmod(rest, BASE)


def label(address: float) -> str:
    """An address in short, token.feature, after its text and a colon if that is not text 0; else the number."""
    try:
        text, token, feature = split(address)
    except ValueError:
        return f"{address:.2f}"
    return f"{text}:{token}.{feature}" if text else f"{token}.{feature}"


def tokens(addresses: torch.Tensor) -> list[int]:
    """The tokens that these addresses come from, in order, each once."""
    return sorted({split(address)[1] for address in addresses.flatten().tolist()})
