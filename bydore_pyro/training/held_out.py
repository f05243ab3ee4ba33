"""The losses of a trained model on held-out text of every domain, and on tasks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bydore_pyro import data, proxy
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.law import PER_TOKEN

SEQUENCES, QUESTIONS = 64, 1000  # of a domain, of a task, at most
STREAM = 6  # apart from the streams of a search and of a training


class HeldOutLoss(NamedTuple):
    """A mean loss, its unit, and the number of sequences or questions that were read for it."""

    loss: float
    sequences: int
    unit: str = PER_TOKEN


def held_out_losses(
    model: proxy.MeasuredModel, store: data.TokenStore, sequence_length: int, chunk: int
) -> dict[str, HeldOutLoss]:
    """Returns the loss of each domain of a store that has held-out text, trained on or not, and of
    each task, nats per token or in the task's unit.

    At most 64 sequences of a domain are read, and 1,000 questions of a task. They do not depend on
    the seed of the training, so the losses of two models can be compared. Held-out text that is
    shorter than a sequence is read as one shorter sequence.

    Args:
        model: Its processes share every batch; all of them call this function.
        store: The text.
        sequence_length: ``T``, tokens in a sequence.
        chunk: Sequences that all processes read at once.

    Raises:
        NonFiniteError: When a loss is NaN or infinite.
        DataError: When the text has changed.
    """
    from tqdm import tqdm

    names = [name for name, tokens in store.validation.items() if len(tokens) >= 2]
    device, found = next(model.model.parameters()).device, {}
    with tqdm(names, "held-out text", unit="domain", mininterval=0.5, disable=not names) as bar:
        for name in bar:
            if store.validation[name].answers is None:
                length = min(sequence_length, len(store.validation[name]))
                stream = data.SequenceStream(store, "validation", name, length, [STREAM])
                tokens = stream.first(SEQUENCES)
                text = data.Sequences(tokens, np.arange(len(tokens)))
            else:
                text = data.held_out_sequences(store, name, sequence_length, 0, QUESTIONS)
            losses = model.evaluate_tokens(text.tokens.to(device), "held out", chunk).cpu()
            loss = float(text.losses(text.of_sequences(losses)).mean())
            if not math.isfinite(loss):
                raise NonFiniteError(
                    f"Expected a finite loss, found {loss} on the held-out text of '{name}': a "
                    "lower --learning_rate may help"
                )
            found[name] = HeldOutLoss(loss, len(text), text.unit)
    return found
