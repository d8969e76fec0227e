"""Views that move.  `explore.heads(...)` and its sisters each load the view that is asked for, and nothing else.

Each is an `mha.views.view.View`: `still()` is the picture for the saved notebook, `table()` its numbers as text.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mha.labels import SENTENCE

if TYPE_CHECKING:
    from torch import Tensor

    from mha.transformer import Transformer
    from mha.views.view import View


def heads(
    weights: "Tensor | list",
    tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    layer_names: Sequence[str] | None = None,
    batch: int | None = None,
) -> "View":
    """All heads of a layer at once, one of them large, one row of it as bars.

    weights: (h, T, S), or (B, h, T, S) with `batch` chosen unless B = 1, or a list of such, one per layer; tensors
    or arrays.  tokens name the T queries, key_tokens the S keys (the same unless given).
    Raises TypeError or ValueError, with what to do, for weights that are none, averaged, or do not sum to one.
    """
    from mha.views.heads import Heads

    return Heads(weights, tokens, key_tokens, layer_names, batch)


def softmax_scale() -> "View":
    """One query and eight keys of random numbers: how d_k sharpens a row, and √d_k keeps it even."""
    from mha.views.softmax_scale import SoftmaxScale

    return SoftmaxScale()


def mask(q: "Tensor | None" = None, k: "Tensor | None" = None, tokens: Sequence[str] = SENTENCE) -> "View":
    """One row of attention while you hide keys: what is left stays a distribution; hide all, and it is zero.

    q, k (T, d_k): those of lesson 01, say; random ones unless given.
    """
    from mha.views.mask import Mask

    return Mask(q, k, tokens)


def two_peaks() -> "View":
    """One row that is asked for two tokens, and what two outputs can read from the mixture that comes back.

    Values are one-hot: what comes back of each token is its weight, and an output reads what it has most of.
    """
    from mha.views.two_peaks import TwoPeaks

    return TwoPeaks()


def translate(model: "Transformer", first: str = "3 May 1979") -> "View":
    """A box for a date in your own way of writing: the translation, whether to trust it, and where heads looked.

    model: the Transformer of lesson 07.  What cannot be read gets a sentence.  Trust is a matter of `dates.caution`,
    which asks the formats; the model's own doubt is shown beside that of 1,000 validation dates.
    """
    from mha.views.translate import Translate

    return Translate(model, first)


def reshape(T: int = 6, h: int = 2, d_k: int = 4) -> "View":
    """A small q on its way through the heads and back, on the right path and on two wrong ones.

    Numbers are addresses, token.feature, in the colour of the head that the feature belongs to.  In the step
    "attend" each token looks at itself alone, so that the addresses stay readable.
    Raises TypeError or ValueError for sizes whose boxes do not fit on a page.
    """
    from mha.views.reshape import Reshape

    return Reshape(T, h, d_k)


def parameter_budget() -> "View":
    """d, h, layers, biases and vocabulary: the bar that h does not move, and the tables of weights that it does."""
    from mha.views.parameters import ParameterBudget

    return ParameterBudget()


def switchboard(model: "Transformer") -> "View":
    """The twelve heads of lesson 07's translator as switches: what is still right without those that are off.

    model: the Transformer of lesson 07, with four heads in each of its three layers.  Has buttons to take a move back.
    """
    from mha.views.switchboard import Switchboard

    return Switchboard(model)


def conversation_cache() -> "View":
    """What a conversation keeps: an open model as it is published, beside one with the layers and heads you choose."""
    from mha.views.conversation import ConversationCache

    return ConversationCache()
