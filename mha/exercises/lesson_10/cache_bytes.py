"""Exercise 10.2: what a model keeps of a text, with shared heads and sliding windows."""

from mha.exercises.compare import whole
from mha.exercises.exercise import GROUPS, Exercise, Mistake


def cache_bytes(layers, num_heads, kv_heads, d_k, tokens, window_layers=0, window=0, bytes_per_number=2):
    numbers = 2 * kv_heads * d_k  # of one token in one layer: its keys and its values
    full, short = (layers - window_layers) * tokens, window_layers * min(tokens, window)
    return (full + short) * numbers * bytes_per_number


def _inputs():
    sizes = (
        ("Llama 3 8B, 8,192 tokens", (32, 32, 8, 128, 8192)),
        ("GPT-2 XL, 100 tokens, 4 bytes", (48, 25, 25, 64, 100, 0, 0, 4)),
        ("Gemma 3 27B, 32,768 tokens", (62, 32, 16, 128, 32_768, 52, 1024)),
        ("Gemma 3 27B, 100 tokens", (62, 32, 16, 128, 100, 52, 1024)),
        ("Mistral 7B, 8,192 tokens, 1 byte", (32, 32, 8, 128, 8192, 32, 4096, 1)),
        ("Falcon 7B, 7 tokens", (32, 71, 1, 64, 7)),
    )
    return dict(sizes)


# A model without windows, of sizes that no formula mixes up.
SIZES = {
    "layers": 3, "num_heads": 10, "kv_heads": 5, "d_k": 7, "tokens": 11,
    "window_layers": 0, "window": 0, "bytes_per_number": 4,
}  # fmt: skip


def proportions(attempt):
    """With which of its arguments an answer does not move as it should."""
    once = attempt.call(*SIZES.values())
    for name in ("layers", "kv_heads", "d_k", "tokens", "bytes_per_number"):
        twice = attempt.call(*(SIZES | {name: 2 * SIZES[name]}).values())
        if not all(isinstance(count, int | float) for count in (once, twice)):
            return None
        if twice != 2 * once:
            says = f"Without windows, twice the {name} must give twice the bytes; yours go from {once:,} to {twice:,}."
            return f"not-in-proportion-to-{name.replace('_', '-')}", says
    factor = once / (3 * 5 * 7 * 11 * 4)
    if factor != 2:
        says = f"Without windows you return {factor:g} · layers · kv_heads · d_k · tokens · bytes; wanted 2 times."
        return "wrong-factor", says
    if attempt.call(*(SIZES | {"num_heads": 20}).values()) != once:
        return "moves-with-query-heads", "The bytes change with num_heads; queries are not kept."
    for tokens, wanted in ((11, 23), (2, 6)):
        found = attempt.call(*(SIZES | {"tokens": tokens, "window_layers": 2, "window": 6}).values())
        if isinstance(found, int | float) and found != wanted * 280:
            says = f"3 layers, 2 with a window of 6, keep {wanted} of {tokens} tokens, all layers together"
            return "wrong-with-windows", f"{says}; yours {found / 280:g}."
    return None


# fmt: off
EXERCISE = Exercise(
    "10.2", cache_bytes, difficulty=2, minutes=6,
    read=whole, probes=(proportions,), inputs=_inputs,
    hints=(
        "First one token in one layer: how many numbers are its keys, and how many its values?",
        "Then count tokens over all layers: most keep all of them, a layer with a window no more than its window.",
        "A text may be shorter than the window: min(tokens, window).",
    ),
    mistakes=(
        Mistake("keys-only", "Half of it: values are kept, too.", ("2 * kv_heads", "kv_heads")),
        Mistake("one-for-each-query-head", "You count h heads; only the h_kv heads of keys and values are kept.",
            ("2 * kv_heads", "2 * num_heads")),
        Mistake("queries-kept", "Queries are counted as well. A query is used once, when its token is new; only keys "
            "and values are asked for again.", ("2 * kv_heads", "(num_heads + 2 * kv_heads)")),
        Mistake("how-many-share", GROUPS, ("2 * kv_heads", "2 * (num_heads // kv_heads)")),
        Mistake("one-head", "You count one head of keys and values; there are h_kv.", ("2 * kv_heads", "2")),
        Mistake("width-missing", "A key is d_k numbers, not one.", (" * d_k", "")),
        Mistake("width-shared-out", "d_k is the width of each key head; it does not shrink when heads are shared.",
            ("2 * kv_heads * d_k", "2 * kv_heads * d_k * kv_heads // num_heads")),
        Mistake("window-in-every-layer", "You use the window in all layers; window_layers says in how many. (Without "
            "such layers, window is 0.)", ("(layers - window_layers) * tokens", "(layers - window_layers) * window")),
        Mistake("window-ignored", "Layers with a window are counted like the others; they keep at most the window.",
            ("min(tokens, window)", "tokens")),
        Mistake("window-always-full", "A text shorter than the window fills only a part of it: min(tokens, window).",
            ("min(tokens, window)", "window")),
        Mistake("the-longer-one", "max(tokens, window); a layer with a window keeps the smaller number.",
            ("min(tokens", "max(tokens")),
        Mistake("window-layers-twice", "Layers with a window are counted twice, in full and with their window.",
            ("(layers - window_layers)", "layers")),
        Mistake("window-layers-free", "Layers with a window are left out; they keep it.", ("full + short", "full")),
        Mistake("bytes-ignored", "Numbers, not bytes: bytes_per_number changes nothing.", (" * bytes_per_number", "")),
        Mistake("always-two-bytes", "Two bytes for each number, whatever bytes_per_number says.",
            (" * bytes_per_number", " * 2")),
        Mistake("bits", "These are bits; wanted bytes.", (" * bytes_per_number", " * 8 * bytes_per_number")),
        Mistake("mebibytes", "This is in MiB; wanted bytes.", (" * bytes_per_number", " * bytes_per_number / 2**20")),
        Mistake("gibibytes", "This is in GiB; wanted bytes.", (" * bytes_per_number", " * bytes_per_number / 2**30")),
    ),
    right=(
        lambda layers, h, kv, d_k, tokens, short=0, window=0, size=2: sum(
            2 * kv * d_k * size * (min(tokens, window) if layer < short else tokens) for layer in range(layers)
        ),
        lambda layers, h, kv, d_k, tokens, short=0, window=0, size=2: float(
            size * 2 * kv * d_k * (layers * tokens - short * max(tokens - window, 0))
        ),
    ),
    fresh=lambda: [(36, 64, 8, 64, 131_072, 18, 128), (30, 9, 3, 64, 1, 0, 0, 4), (4, 6, 2, 5, 5, 4, 9, 1)],
)
