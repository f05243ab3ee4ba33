"""The loss of a language model on rows of text, each a document."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bydore_pyro import data, proxy, terminal
from bydore_pyro.errors import DataError, NonFiniteError

LONGEST = 2048  # tokens of a document, where nothing says at which length a model was trained
AT_ONCE = 256  # rows that are tokenised together


class Context(NamedTuple):
    """The longest contexts that a model reads.

    Attributes:
        tokens: Of a benchmark's question with its examples.
        text: Tokens of a document, with the one that begins it.
        source: Where these numbers come from, in words.
    """

    tokens: int
    text: int
    source: str

    def __str__(self) -> str:
        cut = f"; documents of at most {self.text:,}" if self.text < self.tokens else ""
        return f"contexts of at most {self.tokens:,} tokens, {self.source}{cut}"


def context_of(model: Any, asked: int | None = None) -> Context:
    """Returns the longest contexts for a model of transformers: what is asked for; else the length
    at which `bydore train` has trained it; else what it takes, for documents at most 2,048 tokens.

    Raises:
        DataError: When it takes less than what is asked for.
    """
    most = getattr(model.config, "max_position_embeddings", None)
    trained = getattr(model.config, proxy.TRAINED_LENGTH, None)
    if asked is not None and most is not None and asked > most:
        raise DataError(
            f"Expected --sequence_length <= {most}, the most that the model takes, found {asked}"
        )
    if asked is not None:
        return Context(asked, asked, "as --sequence_length says")
    if isinstance(trained, int):
        return Context(trained, trained, "the length at which the model was trained")
    if most is None:
        return Context(LONGEST, LONGEST, "as the model does not say what it takes")
    return Context(most, min(most, LONGEST), "the model's max_position_embeddings")


class Document(NamedTuple):
    """A document as the model reads it.

    Attributes:
        tokens: ``(T,)``, first the token that begins a text, which has no loss.
        bytes: Of the text in UTF-8, as far as it is read.
        cut: Whether the document is longer.
    """

    tokens: Tensor
    bytes: int
    cut: bool


def read_documents(
    path: Path, tokenizer: Any, longest: int, column: str = "text", limit: int | None = None
) -> list[Document]:
    """Reads the rows of a file as documents, cut to a length.

    The names of special tokens in the text are encoded as plain words. A document begins as in
    training, with the token that begins or ends a text. It is cut between two characters.

    Args:
        path: JSON lines, Parquet, or another file of rows.
        tokenizer: Of transformers.
        longest: Tokens of a document at most, with the one that begins it.
        column: Of the text.
        limit: Read only the first `limit` rows.

    Raises:
        DataError: When there is no such file, it holds no rows or what cannot be read, a row has no
            text, or the tokenizer has no `tokenizers` backend or no such token.
    """
    begin = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    if not tokenizer.is_fast or begin is None:
        raise DataError(
            "Expected a tokenizer.json beside the model, with a token that begins or ends a text, "
            f"found {'no such token' if tokenizer.is_fast else 'none'}"
        )
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    found: list[Document] = []
    rows = islice(data.read_rows(path, data.RowConfig(text_column=column)), limit)
    while batch := list(islice(rows, AT_ONCE)):
        for note in (row.note for row in batch if row.note):
            terminal.tell(f"{path}: {note}")
        texts = [(row.number, row.text or "") for row in batch]
        encoded = backend.encode_batch([text for _, text in texts], add_special_tokens=False)
        for (number, text), one in zip(texts, encoded, strict=True):
            document = _document(text, one.ids, one.offsets, begin, longest - 1)
            if len(document.tokens) < 2:
                raise DataError(f"Expected text in every row, found none in row {number} of {path}")
            found.append(document)
    if not found:
        raise DataError(f"Expected rows of text, found none in {path}")
    return found


def _document(
    text: str, ids: list[int], offsets: list[tuple[int, int]], begin: int, most: int
) -> Document:
    count, size = len(ids), len(text.encode())
    if cut := count > most:
        count = most
        while count and offsets[count][0] < offsets[count - 1][1]:  # both are of one character
            count -= 1
        size = len(text[: offsets[count - 1][1]].encode()) if count else 0
    return Document(torch.tensor([begin, *ids[:count]], dtype=torch.int32), size, cut)


def text_loss(model: Any, documents: Sequence[Document], batch_size: int) -> dict[str, Any]:
    """Returns the loss of a model on documents.

    Returns:
        `loss_nats_per_token` and `loss_nats_per_byte`, each over all tokens or bytes of the text
        that is read; the `standard_error` of each by document, None of a single one; how many
        `documents`, `cut` ones among them, `tokens` and `bytes`.

    Raises:
        NonFiniteError: When a loss is NaN or infinite.
    """
    losses = np.empty(len(documents))  # of whole documents, nats
    for places, found in _losses(model, documents, batch_size):
        losses[places] = found
    if not np.isfinite(losses).all():
        row = int((~np.isfinite(losses)).argmax())
        raise NonFiniteError(f"Expected a finite loss, found {losses[row]} of document {row + 1}")
    tokens = np.array([len(one.tokens) - 1 for one in documents])
    sizes = np.array([one.bytes for one in documents])
    per_token, of_token = loss_per(losses, tokens)
    per_byte, of_byte = loss_per(losses, sizes)
    return {
        "loss_nats_per_token": per_token,
        "loss_nats_per_token_standard_error": of_token,
        "loss_nats_per_byte": per_byte,
        "loss_nats_per_byte_standard_error": of_byte,
        "documents": len(documents),
        "cut": sum(one.cut for one in documents),
        "tokens": int(tokens.sum()),
        "bytes": int(sizes.sum()),
    }


def _losses(
    model: Any, documents: Sequence[Document], batch_size: int
) -> Iterator[tuple[list[int], list[float]]]:
    """Yields places of documents and their losses in nats, the longest first: what memory they need
    is seen at once."""
    from tqdm import tqdm

    measured, device = proxy.MeasuredModel(model), next(model.parameters()).device
    order = sorted(range(len(documents)), key=lambda place: -len(documents[place].tokens))
    with tqdm(total=len(order), desc="text", unit="document", mininterval=0.5, disable=None) as bar:
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            rows = [documents[place].tokens.long() for place in places]
            # The padding comes after everything that is read of a row.
            batch = pad_sequence(rows, batch_first=True).to(device)  # (B, T)
            found = measured.evaluate_tokens(batch, "text", len(rows)).double()  # (B, T - 1)
            yield (
                places,
                [one[: len(r) - 1].sum().item() for one, r in zip(found, rows, strict=True)],
            )
            bar.update(len(rows))


def loss_per(losses: np.ndarray, sizes: np.ndarray) -> tuple[float, float | None]:
    """Returns the loss of a unit of text, and its standard error by document.

    With the losses ``l_i`` of ``n`` documents and their sizes ``s_i``,

        r = sum_i l_i / sum_i s_i,
        error = sqrt(n / (n - 1) sum_i (l_i - r s_i)^2) / sum_i s_i.

    Args:
        losses: ``(n,)``, of whole documents, in nats.
        sizes: ``(n,)``, in tokens or bytes.

    Returns:
        The loss in nats per token or byte, and its error, None of one document.

    References:
        Cochran, "Sampling Techniques" (3rd edition, 1977), section 6.4: the error of a ratio.
    """
    count, total = len(losses), float(sizes.sum())
    ratio = float(losses.sum()) / total
    if count == 1:
        return ratio, None
    left = losses - ratio * sizes
    return ratio, math.sqrt(count / (count - 1) * float(left @ left)) / total
