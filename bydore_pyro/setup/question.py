"""The question that the options of a run ask of its domains: goal, bounds, run, references."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bydore_pyro import answer, data, law
from bydore_pyro.errors import DataError, distinct
from bydore_pyro.mixture import Mixture, numbers_of
from bydore_pyro.setup.cautions import cautions_of
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.places import KNOWN, NATURAL
from bydore_pyro.setup.question_config import shares_of

Amounts = dict[str, float]  # by domain


def question_of(options: Options, domains: data.Domains) -> answer.Question:
    """Returns the question that the options of a run ask.

    Raises:
        DataError: When a domain is unknown, no mixture meets the bounds, the domains hold too
            little text for them, or the baseline is no mixture of the domains.
    """
    config, names = options.question, domains.names
    weights = partial(torch.tensor, dtype=torch.float64)
    read = consumed_tokens(options, domains)
    least, most = bounds_of(options, domains, read)
    references = {name: weights_of(name, domains) for name in KNOWN}
    baseline = config.baseline if config.baseline in KNOWN else "baseline"
    if baseline not in references:
        references[baseline] = weights_of(config.baseline, domains)
    objective = "none_worse" if config.guard else config.objective
    guards = [name for name, share in domains.validation_shares.items() if not share]
    return answer.Question(
        names=names,
        tokenizer=domains.corpus.tokenizer_sha256,
        data_sha256=domains.corpus.sha256,
        pools=domains.pools,
        goal=law.Goal(
            objective=objective,
            tolerance=config.tolerance,
            probability=config.probability,
            baseline=references[baseline] if objective == "none_worse" else None,
            at_least=weights([least.get(name, 0.0) for name in names]) if least else None,
            at_most=None if most is None else weights([most[name] for name in names]),
        ),
        guards=() if config.objective == "none_worse" else tuple(guards),
        run=run_of(options, domains, read),
        references=references,
        baseline=baseline,
        notes=tuple(f"{one[0].upper()}{one[1:]}." for one in cautions_of(options, domains)),
    )


def bounds_of(
    options: Options, domains: data.Domains, read: Amounts
) -> tuple[Amounts, Amounts | None]:
    """Returns the smallest weights that `at_least` asks for, and the largest of all domains that
    `at_most` and `max_epochs` allow; None without these. `read` says how many tokens of each domain
    were read before.

    Raises:
        DataError: When a domain is unknown, no mixture lies within them, or the domains hold too
            little text for `max_epochs` or for what `at_least` asks.
    """
    config = options.question
    least, most = shares_of(config.at_least), shares_of(config.at_most)
    data.check_needed([*least, *most], domains.names)
    for name in least.keys() & most.keys():
        if least[name] > most[name]:
            low, high = distinct(least[name], most[name], 6)
            raise DataError(
                f"Expected --at_least up to --at_most, found {low} and {high} of '{name}'"
            )
    needed, room = (  # exact sums: .05 + .55 + .3 + .1 is 1
        math.fsum(least.values()),
        math.fsum(most.get(name, 1.0) for name in domains.names),
    )
    if needed > 1 or room < 1:
        raise DataError(
            "Expected --at_least to sum to at most 1 and --at_most to at least 1, found "
            f"{distinct(1, needed, 6)[1]} and {distinct(1, room, 6)[1]}"
        )
    if config.max_epochs is None and not most:
        return least, None
    most = dict.fromkeys(domains.names, 1.0) | most
    if config.max_epochs is not None:
        tokens = options.run_tokens
        most = _within_epochs(config.max_epochs, tokens, domains, read, least, most)
    return least, most


def _within_epochs(
    epochs: float,
    tokens: float,
    domains: data.Domains,
    read: Amounts,
    least: Amounts,
    most: Amounts,
) -> Amounts:
    """Returns the largest weights, within others, with which no text is read too often."""
    text = domains.most_weights(epochs, tokens)
    left = {name: max(0.0, text[name] - count / tokens) for name, count in read.items()}
    most = {name: min(most[name], left[name]) for name in domains.names}
    for name, share in least.items():
        if share > most[name]:
            asked, room = distinct(share, most[name], 6)
            raise DataError(
                f"Expected --at_least within --max_epochs, found {name}={asked} where "
                f"{epochs:g} epochs are {room} of the run"
            )
    equal = (1 / domains.num_domains,) * domains.num_domains
    Mixture(names=domains.names, weights=equal).capped(most)  # refuses too little text
    return most


def consumed_tokens(options: Options, domains: data.Domains) -> Amounts:
    """Returns the tokens of each domain that were read before; 0 where `consumed` names no file.

    Raises:
        DataError: When the file cannot be read or names another domain.
    """
    found: dict[str, float] = {}
    if options.run.consumed is not None:
        path = Path(options.run.consumed)
        found = data.gathered(numbers_of(path, "tokens_by_domain"), domains.pools)
        data.check_needed(found, domains.names)
    return {name: found.get(name, 0.0) for name in domains.names}


def run_of(options: Options, domains: data.Domains, read: Amounts) -> answer.TargetRun | None:
    """Returns the run on these domains that `--target_tokens` asks for, None without one; `read`
    says how many tokens of each domain were read before it."""
    tokens = options.question.target_tokens
    if tokens is None:
        return None
    once = domains.most_weights(1.0, tokens)
    rates = torch.tensor([1 / once[name] for name in domains.names], dtype=torch.float64)
    before = [read[name] / tokens for name in domains.names]
    return answer.TargetRun(
        tokens=tokens,
        repetition_constant=options.run.repetition_constant,
        rates=rates,
        before=torch.tensor(before, dtype=torch.float64),
    )


def weights_of(source: str, domains: data.Domains) -> Tensor:
    """Returns the weights ``(K,)`` of 'uniform', 'natural', or a mixture that `mixture_from` takes.

    Raises:
        DataError: When it is no mixture of these domains.
    """
    if source == NATURAL:
        shares = domains.corpus.natural(domains.names)
        return torch.tensor([*shares.values()], dtype=torch.float64)
    if source in KNOWN:
        return torch.ones(domains.num_domains).double() / domains.num_domains
    return weights_in(mixture_for(source, domains), domains)


def mixture_for(source: str, domains: data.Domains) -> Mixture:
    """Returns a mixture that `data.read_mixture` takes; the domains of a pool stand for themselves,
    or for all.

    Raises:
        DataError: When it is no mixture of these domains.
    """
    given = data.read_mixture(source, domains.corpus, domains.names)
    members = [name for pool in domains.pools.values() for name in pool]
    given.check({*domains.names, *members}, domains.corpus.tokenizer_sha256, source)
    return given


def weights_in(mixture: Mixture, domains: data.Domains) -> Tensor:
    """Returns a mixture's weights of these domains ``(K,)``; a pool has the sum of its domains'."""
    weights = data.gathered(mixture.as_dict(), domains.pools)
    found = [weights.get(name, 0.0) for name in domains.names]
    return torch.tensor(found, dtype=torch.float64)
