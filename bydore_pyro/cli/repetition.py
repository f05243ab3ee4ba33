"""``bydore repetition``: how fast repeated text loses its value for a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.baselines import Problem, ReadingsConfig, RepetitionLaw
from bydore_pyro.data import TokenStore
from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import SMOKE, Options, results_of
from bydore_pyro.utils import one_line_errors

if TYPE_CHECKING:
    import pandas

__all__ = ["COMMON", "MORE", "RepetitionOptions", "repetition_command"]

FORMAT = "bydore_pyro.repetition/1"
# What `--help` lists, and what `--help-all` adds; all other settings stand in a file.
COMMON = (
    *("data", "domains", "reading_domains", "proxy", "steps", "readings", "reading_seeds"),
    *("device", "out", "smoke"),
)
MORE = (
    *("tokenizer", "domain_megabytes", "text_column", "domain_column", "learning_rate", "seed"),
    *("precision", "sequence_length", "batch_sequences", "validation_sequences", "cache"),
)
DEFAULTS = {"steps": 160, "batch_sequences": 16}  # a minute or two a domain and seed, on a core
SMALL = {"steps": 16, "batch_sequences": 2}


@dataclass(frozen=True, kw_only=True)
class RepetitionOptions(Options):
    """All options of `bydore repetition`."""

    repetition: ReadingsConfig


@one_line_errors("bydore repetition")
def repetition_command(arguments: Sequence[str]) -> None:
    """Measures how fast repeated text loses its value for a proxy. Fresh proxies are trained for a
    short time on the text of some domains. The result is R: after R further readings, another one
    teaches 1/e as much as new text. --resume RUN continues a run that was stopped; finished proxies
    are not trained again."""
    from bydore_pyro.analysis import plot_repetition
    from bydore_pyro.baselines import fit_repetition, measure_readings, up_to
    from bydore_pyro.runs import begin_run, load_corpus, options_or_resumed
    from bydore_pyro.utils import tell

    about = repetition_command.__doc__ or ""
    smoke, name = {**SMOKE, **SMALL}, "bydore repetition"
    options, resume = options_or_resumed(
        arguments, name, about, RepetitionOptions, smoke, COMMON, MORE, DEFAULTS
    )
    folder = begin_run(options, "repetition", resume)
    corpus = load_corpus(options, options.run.domains or ())
    if resume is None:
        folder.write_config("repetition", options.as_dict(), tell)
    problem = _problem(options, corpus, folder.path / "proxies")
    readings = measure_readings(problem, options.repetition, options.run.domains)
    # A law that held would tell the same R from fewer readings.
    laws = {n: fit_repetition(up_to(readings, n)) for n in options.repetition.readings[2:]}
    folder.write_json("repetition.json", _content(options, readings, laws, problem.cost))
    if folder.writes:
        folder.write_figure("repetition.png", plot_repetition(readings, [*laws.values()][-1]))
        print(_sentence(laws, problem.cost.report()))
        print(f"In {folder.path}: repetition.json, repetition.png.")


def _problem(options: RepetitionOptions, corpus: TokenStore, runs: Path) -> Problem:
    """The text and the proxy; each domain in turn is its own target."""
    from bydore_pyro.runs import language_model

    length = options.run.sequence_length
    names = tuple(name for name, tokens in corpus.train.items() if len(tokens) >= length)
    return Problem(
        corpus=corpus,
        names=names,
        target=dict.fromkeys(names, 1.0),
        build=lambda seed: language_model(options, corpus.vocabulary, seed),
        proxy=options.proxy,
        steps=options.search.steps,
        batch_sequences=options.search.batch_sequences,
        sequence_length=length,
        validation_sequences=options.run.validation_sequences,
        seed=options.run.seed,
        budget=1.0,  # of methods; nothing here asks for it
        runs=runs,
    )


def _content(
    options: RepetitionOptions,
    readings: pandas.DataFrame,
    laws: dict[int, RepetitionLaw],
    cost: Cost,
) -> dict[str, Any]:
    """What `repetition.json` holds."""
    law = laws[max(laws)]
    columns = {
        "domain": readings["domain"].tolist(),
        "text_tokens": readings["text"].astype(int).tolist(),
        "epochs": readings["epochs"].tolist(),
        "loss": readings["loss"].tolist(),
    }
    content = {
        "format": FORMAT,
        "repetition_constant": law.constant,
        "interval": list(law.interval),
        "interval_probability": HDI_PROBABILITY,
        "of_domains": law.of_domains,
        "best_epochs": law.best_epochs,
        "up_to": {
            str(most): {"repetition_constant": one.constant, "interval": list(one.interval)}
            for most, one in laws.items()
        },
        "curves": {n: [*map(list, c.items())] for n, c in law.curves.items()},
        "misfit": law.misfit,
        "noise": law.noise,
        "trainings": columns,
    }
    return results_of(content, options, options.run.seed, cost, ("scipy",))


def _sentence(laws: dict[int, RepetitionLaw], cost: dict[str, Any]) -> str:
    """What was measured, in words."""
    *fewer, most = laws
    law = laws[most]
    by_fewer = ", ".join(f"up to {n} {_constant(laws[n])}" for n in fewer)
    own = ", ".join(f"{name} {value:.2g}" for name, value in law.of_domains.items())
    worse = ", ".join(f"{name} {n:g}" for name, n in law.best_epochs.items() if n < most)
    turned = f" {most} readings were worse than fewer (best: {worse}), which no R can say."
    noise = "" if law.noise is None else f"; models of other seeds differ by {law.noise:.3f}"
    return (
        f"R = {_constant(law)} epochs by up to {most} readings ({HDI_PROBABILITY:.0%} interval; "
        f"{own}); by {by_fewer}. The law misses losses by {law.misfit:.3f} nats per token{noise}."
        f"{turned if worse else ''} It cost {cost['tokens']:,} tokens, {cost['flops']:.2e} FLOPs, "
        f"{cost['seconds']:.0f} seconds. For a search: --repetition_constant {law.constant:.2g}."
    )


def _constant(law: RepetitionLaw) -> str:
    """R with its interval."""
    low, high = ("?" if bound is None else f"{bound:.2g}" for bound in law.interval)
    return f"{law.constant:.2g} [{low}, {high}]"
