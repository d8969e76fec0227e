"""Output the K tokens before you: a task that asks one attention layer for several things at once.  Notebook 02."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mha.attention import MultiHeadAttention, causal_mask

LENGTH, VOCABULARY, K = 16, 16, 4
SETTINGS = {"steps": 600, "lr": 1e-2}


def batch(seed: int, size: int = 64) -> Tensor:
    """`size` texts of random tokens (B, T), the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (size, LENGTH), generator=generator)


def wanted(tokens: Tensor, K: int = K) -> Tensor:
    """What each position from K on must output: (B, T − K, K), nearest token first."""
    return torch.stack([tokens[:, K - back : LENGTH - back] for back in range(1, K + 1)], dim=-1)


class Lookback(nn.Module):
    """Embedding and positions, one attention layer with its residual, a linear read-out.

    7,360 parameters for d = 32 and K = 4, whatever the number of heads.  tokens (B, T) → scores (B, T − K, K, V).
    Raises ValueError for a K that leaves no token to ask.
    """

    def __init__(self, num_heads: int, d_model: int = 32, K: int = K):
        super().__init__()
        if not 1 <= K < LENGTH:
            raise ValueError(f"K={K} tokens before a position: wanted 1 to {LENGTH - 1}, as texts have {LENGTH} tokens")
        self.K = K
        self.embedding = nn.Embedding(VOCABULARY, d_model)
        self.positions = nn.Embedding(LENGTH, d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, bias=True)
        self.read_out = nn.Linear(d_model, K * VOCABULARY)

    def forward(self, tokens: Tensor, need_weights: bool = True) -> tuple[Tensor, Tensor | None]:
        """Always two things: scores for every position from K on, and weights (B, h, T, T), or None for the weights
        with need_weights=False.
        """
        x = self.embedding(tokens) + self.positions.weight  # (B, T, d)
        mask = causal_mask(LENGTH, device=x.device)
        update, weights = self.attention(x, mask, need_weights=need_weights)
        scores = self.read_out((x + update)[:, self.K :]).unflatten(-1, (self.K, VOCABULARY))
        return scores, weights


def loss(model: nn.Module, tokens: Tensor, only_last: bool = False) -> Tensor:
    """Cross-entropy of all K outputs, at every position from K on or at the last one alone."""
    scores, answers = _scores_and_answers(model, tokens, only_last)
    return F.cross_entropy(scores.flatten(0, 2), answers.flatten())


@torch.no_grad()
def accuracy(model: nn.Module, tokens: Tensor, only_last: bool = False) -> float:
    """The share of positions, or of last positions, at which all K outputs are right."""
    scores, answers = _scores_and_answers(model, tokens, only_last)
    return (scores.argmax(dim=-1) == answers).all(dim=-1).float().mean().item()


def _scores_and_answers(model: nn.Module, tokens: Tensor, only_last: bool) -> tuple[Tensor, Tensor]:
    """Scores (B, T − K, K, V) and wanted tokens (B, T − K, K), or both at the last position alone (B, 1, …)."""
    scores, _ = model(tokens, need_weights=False)
    answers = wanted(tokens, K=scores.size(2))
    return (scores[:, -1:], answers[:, -1:]) if only_last else (scores, answers)


@torch.no_grad()
def two_by_hand() -> Lookback:
    """A `Lookback` with one head, its weights set by hand, that is always right at K = 2.  Notebook 02, part 4.

    Each token has a strength F, and the head looks at the two tokens before in proportion to theirs: shares a₁ for
    the nearer and a₂ for the farther, a₁ + a₂ = 1.  Each value carries its position and 1/F, so that position i finds
    the mean position m = i − a₁ − 2a₂ and r = a₁/F₁ + a₂/F₂ = 2/(F₁ + F₂).  From these a₁ = m − i + 2, a₂ = i − m − 1,
    F₁ = 2a₁/r and F₂ = 2a₂/r.  An answer of strength t scores 4ta − t²r, linear in what was found and highest
    at t = 2a/r: at the right token.
    """
    model = Lookback(num_heads=1, K=2)
    for weight in model.parameters():
        weight.zero_()
    d, d_scale = model.attention.d_model, model.attention.d_k**0.5
    log_f, inverse_f, position, mean_position, r = range(
        5
    )  # the features of x that are in use, and `here`, a one-hot position
    here = slice(5, 5 + LENGTH)
    strength = 1 + torch.arange(VOCABULARY) / VOCABULARY  # F, from 1 to almost 2

    model.embedding.weight[:, log_f], model.embedding.weight[:, inverse_f] = strength.log(), 1 / strength
    model.positions.weight[:, position], model.positions.weight[:, here] = torch.arange(LENGTH), torch.eye(LENGTH)

    w_q, w_k, w_v = model.attention.qkv.weight.chunk(3)
    two_before = torch.ones(LENGTH, LENGTH).tril(-1).triu(-2)  # row i: 1 at i − 1 and i − 2
    w_q[here, here], w_k[here, here] = 30 * d_scale * two_before.T, torch.eye(LENGTH)  # 30 more for those two,
    model.attention.qkv.bias[log_f], w_k[log_f, log_f] = d_scale, 1  # and log F: after softmax, F
    w_v[mean_position, position] = w_v[r, inverse_f] = 1
    model.attention.proj.weight[[mean_position, r], [mean_position, r]] = 1

    read, constant = model.read_out.weight.view(2, VOCABULARY, d), model.read_out.bias.view(2, VOCABULARY)
    for output, (sign, rest) in enumerate([(1, 2), (-1, -1)]):  # a₁ = (m − i) + 2, a₂ = −(m − i) − 1
        read[output, :, mean_position], read[output, :, position] = sign * 4 * strength, -sign * 4 * strength
        constant[output] = rest * 4 * strength
    read[:, :, r] = -(strength**2)
    return model
