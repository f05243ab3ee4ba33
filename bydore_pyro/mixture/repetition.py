"""How often a run reads each domain, and what text that is read again still teaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bydore_pyro.errors import DataError, listed
from bydore_pyro.mixture.units import Supply
from bydore_pyro.terminal import Table

if TYPE_CHECKING:
    from torch import Tensor

REPETITION_CONSTANT = 15.0  # R by Muennighoff et al.; up to 7 readings mixtures of ours agree
#: Epochs up to which repeated text is about as good as new text, by Muennighoff et al.
GOOD_EPOCHS = 4.0
#: No more epochs' worth than this can be learned from a text (`effective_shares`).
MOST_EPOCHS = 1 + REPETITION_CONSTANT
SEQUENCE_LENGTH = 2048  # tokens, where a run's is not known
SHOWN = 10  # names in a line


class Exposure(NamedTuple):
    """What a run reads of one domain.

    Attributes:
        name: The domain.
        share: Its share of the run's tokens, in [0, 1].
        tokens: That the run reads of it.
        epochs: How often the run reads its text; None where its size is not known.
        documents: How many of its documents the run reads, repeated ones each time; None where
            they were not counted.
    """

    name: str
    share: float
    tokens: float
    epochs: float | None = None
    documents: float | None = None


def exposures_of(
    shares: Mapping[str, float], tokens: float, supply: Mapping[str, Supply]
) -> tuple[Exposure, ...]:
    """Returns what a run of a mixture reads of each domain, in the mixture's order.

    With ``T_k`` tokens in ``D_k`` documents, ``w_k N`` tokens are ``e_k = w_k N / T_k`` epochs and
    ``e_k D_k`` documents.

    Args:
        shares: Of tokens ``w``, summing to 1.
        tokens: Length of the run ``N``.
        supply: What there is of the domains, as far as it is known.
    """
    found = []
    for name, share in shares.items():
        there, read = supply.get(name), share * tokens
        epochs = documents = None
        if there is not None:
            epochs = read / there.tokens
            documents = None if there.documents is None else epochs * there.documents
        found.append(Exposure(name, share, read, epochs, documents))
    return tuple(found)


def longest_run(
    shares: Mapping[str, float], supply: Mapping[str, Supply], epochs: float = 1.0
) -> tuple[float, str] | None:
    """Returns the longest run, in tokens, that reads no domain more than `epochs` times, and the
    domain that limits it; None where the size of a domain that has a share is not known."""
    rooms = {n: supply[n].tokens / w for n, w in shares.items() if w > 0 and n in supply}
    if len(rooms) < sum(share > 0 for share in shares.values()):
        return None
    limit = min(rooms, key=lambda name: rooms[name])
    return epochs * rooms[limit], limit


def require_epochs(exposures: Sequence[Exposure], most: float) -> None:
    """Refuses a run that reads a domain more than `most` times.

    Raises:
        DataError: When it does; names the domains, those of most epochs first.
    """
    over = sorted((r for r in exposures if (r.epochs or 0) > most), key=lambda r: -(r.epochs or 0))
    if over:
        found = listed([f"{_count(r.epochs)} of '{r.name}' ({_share(r.share)})" for r in over], 3)
        needed = _count(max(r.epochs or 0 for r in over), up=True)
        raise DataError(
            f"Expected at most {most:g} epochs of each domain, found {found}: "
            f"--repeat {needed.replace(',', '')} allows them"
        )


def notes_on(exposures: Sequence[Exposure], sequence_length: int | None) -> list[str]:
    """Returns what a user must know of a run's exposures, a line each: domains that are read more
    than four times, those of which no sample is drawn, and those whose size is not known.

    Args:
        exposures: Of all domains.
        sequence_length: Tokens in what the trainer draws; None where it draws documents.
    """
    kind = "a document" if sequence_length is None else f"a sequence of {sequence_length:,} tokens"

    def samples(one: Exposure) -> float | None:
        return one.documents if sequence_length is None else one.tokens / sequence_length

    drawn = [one for one in exposures if one.share > 0]
    often = [one for one in drawn if (one.epochs or 0) > GOOD_EPOCHS]
    never = [one for one in drawn if (count := samples(one)) is not None and count < 1]
    unknown = [one for one in drawn if one.epochs is None]
    lines = {
        f"Read more than {GOOD_EPOCHS:g} times, where repeated text begins to teach less": [
            f"{one.name} ({_count(one.epochs)} epochs)"
            for one in sorted(often, key=lambda one: -(one.epochs or 0))
        ],
        f"No sample at this length, since the share is less than {kind}": [
            f"{one.name} ({samples(one) or 0:.2g})" for one in never
        ],
        "Epochs unknown, since neither --data nor --domain_tokens tells the size": [
            one.name for one in unknown
        ],
    }
    return [f"{line}: {listed(names, SHOWN)}." for line, names in lines.items() if names]


def exposures_table(exposures: Sequence[Exposure]) -> Table:
    """Returns the exposures as a table, the largest share first; more than four epochs are marked
    with an exclamation mark, and more than can be learned from with two."""
    header = ("domain", "share", "tokens", "epochs", "documents", "")
    rows = []
    for one in sorted(exposures, key=lambda one: -one.share):
        epochs = one.epochs or 0
        mark = "!!" if epochs > MOST_EPOCHS else "!" if epochs > GOOD_EPOCHS else ""
        read = f"{one.tokens:,.0f}"
        rows.append(
            (one.name, _share(one.share), read, _count(one.epochs), _count(one.documents), mark)
        )
    return Table(header=header, rows=rows)


def exposures_csv(exposures: Sequence[Exposure]) -> str:
    """Returns the exposures as a file of comma-separated values, which `mixture_from` reads back by
    its columns `domain` and `share`; an unknown number is an empty cell."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("domain", *Exposure._fields[1:]))
    for one in exposures:
        writer.writerow([one.name, *("" if v is None else repr(float(v)) for v in one[1:])])
    return text.getvalue()


def _share(share: float) -> str:
    return f"{share:.2%}" if share >= 1e-4 or share == 0 else f"{share:.1e}"


def _count(number: float | None, *, up: bool = False) -> str:
    """Writes a count with three digits, or all before the point; an unknown one as "?"."""
    if number is None:
        return "?"
    if up:
        number = float(int(number) + 1)
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def effective_shares(
    weights: Tensor, epochs_per_unit_weight: Tensor | float, constant: Tensor | float
) -> Tensor:
    """Returns the shares ``v`` of fresh text that teach as much as the repeated text of a run.

    With ``e_k = w_k N / U_k`` epochs of domain k, in a run of N tokens::

        v_k = w_k                                             where e_k <= 1
        v_k = U_k / N (1 + R (1 - exp(-(e_k - 1) / R)))       beyond

    So ``v <= w``. It grows with ``w``, with the slope ``exp(-(e_k - 1) / R)``, which is continuous:
    a reading that is R later teaches 1 / e as much. At most ``1 + R`` epochs' worth can be learned.

    Args:
        weights: ``w``, shares of the run, at least 0, ``(..., K)``.
        epochs_per_unit_weight: ``N / U_k``, at least 0: how often a run of the domain alone would
            read it; ``(K,)`` or one for all. 0 for text without end.
        constant: ``R > 0``, in epochs, ``(K,)`` or one for all.

    Returns:
        Shares of the run ``(..., K)``; less than 1 in sum where text is repeated.

    Raises:
        ValueError: When a rate is below 0 or a constant not above 0, or one is not finite.

    References:
        Muennighoff et al. (2023), Scaling Data-Constrained Language Models, arXiv 2305.16264,
        equation 5, with R of their fit.
    """
    import torch

    rate = torch.as_tensor(epochs_per_unit_weight, dtype=weights.dtype, device=weights.device)
    fading = torch.as_tensor(constant, dtype=weights.dtype, device=weights.device)
    if not bool(((rate >= 0) & rate.isfinite()).all()):
        raise ValueError(f"Expected finite epochs_per_unit_weight >= 0, actual {rate.tolist()}")
    if not bool(((fading > 0) & fading.isfinite()).all()):
        raise ValueError(f"Expected a finite constant R > 0, actual {fading.tolist()}")
    again = (weights * rate - 1).clamp(min=0)  # epochs beyond the first
    # What is lost, in epochs: exactly 0, with slope 0, up to the first epoch's end.
    lost = again + fading * torch.expm1(-again / fading)
    return weights - lost / rate.clamp(min=torch.finfo(weights.dtype).tiny)
