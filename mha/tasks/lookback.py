"""Output the K tokens before you: a task for which one softmax row is not enough.  Notebook 02."""

import torch
import torch.nn.functional as F
from torch import nn

from mha.attention import MultiHeadAttention, causal_mask

LENGTH, VOCABULARY, K = 16, 16, 4
SETTINGS = {"steps": 600, "lr": 1e-2}


def batch(seed, size=64):
    """`size` texts of random tokens (B, T), the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (size, LENGTH), generator=generator)


def wanted(tokens):
    """What each position from K on must output: (B, T − K, K), nearest token first."""
    return torch.stack([tokens[:, K - back : LENGTH - back] for back in range(1, K + 1)], dim=-1)


class Lookback(nn.Module):
    """Embedding and positions, one attention layer with its residual, a linear read-out.

    7,360 parameters for d = 32, whatever the number of heads.  tokens (B, T) → scores (B, T − K, K, V).
    """

    def __init__(self, num_heads, d_model=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, d_model)
        self.positions = nn.Embedding(LENGTH, d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, bias=True)
        self.read_out = nn.Linear(d_model, K * VOCABULARY)

    def forward(self, tokens, need_weights=False):
        """Scores for every position from K on; with need_weights also the weights (B, h, T, T)."""
        x = self.embedding(tokens) + self.positions.weight  # (B, T, d)
        mask = causal_mask(LENGTH, device=x.device)
        found, weights = self.attention(x, mask, need_weights=need_weights)
        scores = self.read_out((x + found)[:, K:]).unflatten(-1, (K, VOCABULARY))
        return (scores, weights) if need_weights else scores


def loss(model, tokens):
    """Cross-entropy of all K outputs."""
    return F.cross_entropy(model(tokens).flatten(0, 2), wanted(tokens).flatten())


@torch.no_grad()
def accuracy(model, tokens):
    """The share of positions at which all K outputs are right."""
    return (model(tokens).argmax(dim=-1) == wanted(tokens)).all(dim=-1).float().mean().item()
