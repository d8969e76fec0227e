"""What attention costs: parameters, FLOPs and bytes.  Derived and counted in notebook 04.

Each function returns whole numbers by piece; `sum(pieces.values())` is the total.
"""

from mha.checks import check_kv_heads, check_sizes

PIECES = ("query", "key", "value", "output")


def attention_parameters(
    d_model: int = 512, num_heads: int = 8, d_k: int | None = None, bias: bool = False, kv_heads: int | None = None
) -> dict[str, int]:
    """Parameters of one multi-head attention, by piece.  d_k is d_model / num_heads unless given.

    Query: d·(h·d_k); output: (h·d_k)·d; key and value: d·(h_kv·d_k) each, where the h_kv = `kv_heads` key and
    value heads (h unless given) are shared by h query heads.  With d_k = d / h and h_kv = h the matrices have 4d²
    numbers, whatever h.  Raises ValueError if d_k is not given and h does not divide d, or h_kv does not divide h.
    Source: notebook 04; shared keys and values: Ainslie et al. 2023.
    """
    width = _width(d_model, num_heads, d_k)
    kv_heads = check_kv_heads(num_heads, num_heads if kv_heads is None else kv_heads)
    shared = width * kv_heads // num_heads
    pieces = {name: d_model * (width if name in ("query", "output") else shared) for name in PIECES}
    return pieces | ({"biases": width + 2 * shared + d_model} if bias else {})


def feed_forward_parameters(
    d_model: int = 512, expansion: float = 4, bias: bool = False, gated: bool = False
) -> dict[str, int]:
    """Parameters of one feed-forward block, d → expansion·d → d, by piece; a gated one has a third matrix.

    Source: notebook 04; gated: Shazeer 2020, "GLU Variants Improve Transformer".
    """
    inner = round(expansion * d_model)
    pieces = ({"gate": d_model * inner} if gated else {}) | {"up": d_model * inner, "down": inner * d_model}
    return pieces | ({"biases": (2 if gated else 1) * inner + d_model} if bias else {})


def stack_parameters(
    num_layers: int = 12,
    d_model: int = 512,
    num_heads: int = 8,
    expansion: float = 4,
    bias: bool = False,
    vocabulary: int = 0,
) -> dict[str, int]:
    """Parameters of a stack of encoder layers, by piece, as nn.TransformerEncoder has them.

    Each layer: attention, feed-forward and two norms (2d; 4d with bias).  `vocabulary` rows of token
    embedding are counted once, if any.  Source: notebook 04.
    """
    pieces = {
        "attention": num_layers * sum(attention_parameters(d_model, num_heads, bias=bias).values()),
        "feed-forward": num_layers * sum(feed_forward_parameters(d_model, expansion, bias).values()),
        "norms": num_layers * (4 if bias else 2) * d_model,
    }
    return pieces | ({"embedding": vocabulary * d_model} if vocabulary else {})


def attention_flops(
    d_model: int, num_heads: int, T: int, S: int | None = None, B: int = 1, d_k: int | None = None
) -> dict[str, int]:
    """Floating-point operations of the products in one forward pass, by piece; a product-and-add counts two.

    T queries against S keys (S = T unless given).  The softmax, which is left out as is usual, adds a few
    operations for each of the B·h·T·S weights.  Source: notebook 04.
    """
    S = T if S is None else S
    width = _width(d_model, num_heads, d_k)
    return {
        "projections": 2 * B * d_model * width * (T + 2 * S),
        "scores": 2 * B * T * S * width,
        "mixing": 2 * B * T * S * width,
        "output": 2 * B * T * width * d_model,
    }


def table_bytes(num_heads: int, T: int, S: int | None = None, B: int = 1, bytes_per_number: int = 4) -> int:
    """Bytes of the B·h tables of T × S weights that one layer fills (float32 unless said).  Source: notebook 04."""
    return B * num_heads * T * (T if S is None else S) * bytes_per_number


def cache_bytes(num_layers: int, kv_heads: int, d_k: int, T: int, B: int = 1, bytes_per_number: int = 2) -> int:
    """Bytes of the keys and values that a model keeps of T tokens while it writes (half precision unless said).

    Two tensors (B, h_kv, T, d_k) in each layer.  Source: notebook 04.
    """
    return 2 * num_layers * B * kv_heads * T * d_k * bytes_per_number


def latent_parameters(
    d_model: int = 512, num_heads: int = 8, latent: int = 128, d_k: int | None = None
) -> dict[str, int]:
    """Parameters of one attention whose keys and values come from a vector of r = `latent` numbers, by piece.

    down: d·r; up: r·(h·d_k) each for keys and values; query and output as ever.  As `production.LatentAttention`,
    without biases.  Source: DeepSeek-AI 2024; notebook 10.
    """
    width = _width(d_model, num_heads, d_k)
    return {"query": d_model * width, "down": d_model * latent, "up": 2 * latent * width, "output": width * d_model}


def latent_cache_bytes(num_layers: int, latent: int, T: int, B: int = 1, bytes_per_number: int = 2) -> int:
    """Bytes of the vectors (B, T, r) that each layer keeps instead of keys and values.  Source: notebook 10."""
    return num_layers * B * T * latent * bytes_per_number


def _width(d_model: int, num_heads: int, d_k: int | None) -> int:
    if d_k is None:
        d_model, num_heads = check_sizes(d_model, num_heads)
        d_k = d_model // num_heads
    if num_heads < 1 or d_k < 1:
        raise ValueError(f"num_heads={num_heads} and d_k={d_k} must be at least 1")
    return num_heads * d_k
