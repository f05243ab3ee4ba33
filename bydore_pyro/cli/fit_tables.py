"""How much text the domains of a table hold, and the caps on their weights that follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bydore_pyro.baselines import RunsTable
from bydore_pyro.data import load_tokens
from bydore_pyro.mixture import numbers_of
from bydore_pyro.runs import MethodOptions, RunConfig
from bydore_pyro.utils import DataError, progress_bar, tell

__all__ = ["DEFAULT_DATA", "caps_of", "domain_tokens"]

DEFAULT_DATA = RunConfig().data  # the text of the environment, which no table is of


def domain_tokens(options: MethodOptions, named: str | None, table: RunsTable) -> np.ndarray | None:
    """Returns the tokens of the table's domains ``(K,)``, None where they are not named.

    Args:
        options: The run's length and its text.
        named: The file of `--domain_tokens`.
        table: The runs.

    Raises:
        DataError: When they are needed and not named, or are other domains'.
    """
    run = options.run
    limits = [f"--{n}" for n in ("max_epochs", "target_tokens") if getattr(run, n) is not None]
    if named is not None:
        place, found = named, numbers_of(Path(named))
    elif run.data != DEFAULT_DATA:
        with progress_bar() as bar:
            corpus = load_tokens(
                *(run.data, options.corpus, options.tokenizer, options.rows),
                cache=Path(run.cache) if run.cache else None,
                progress=tell,
                bar=bar,
            )
        place, found = run.data, {name: float(len(t)) for name, t in corpus.train.items()}
    elif limits:
        raise DataError(
            f"Expected --domain_tokens FILE or --data with {' and '.join(limits)}, which need the "
            "domains' numbers of tokens; found neither"
        )
    else:
        return None
    missing = sorted(set(table.domains) - set(found))
    if missing or not any(found.values()):
        told = f"none for '{missing[0]}'" if missing else "none"
        raise DataError(f"Expected the tokens of the runs' domains in {place}, found {told}")
    return np.array([found[name] for name in table.domains])


def caps_of(options: MethodOptions, tokens: np.ndarray) -> np.ndarray | None:
    """Returns the largest weights ``(K,)`` that `max_epochs` allows, None without it.

    Raises:
        DataError: When the run's length is not told, or the domains hold too little for it.
    """
    run = options.run
    if run.max_epochs is None:
        return None
    if run.target_tokens is None:
        raise DataError("Expected --target_tokens with --max_epochs and --runs, found none")
    caps = np.minimum(run.max_epochs * tokens / options.run_tokens, 1.0)
    if caps.sum() < 1:
        raise DataError(
            f"Expected enough text for the run within {run.max_epochs:g} epochs, found text for "
            f"{caps.sum():.3f} of it"
        )
    return caps
