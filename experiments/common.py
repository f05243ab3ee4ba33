"""What the experiments share: loading, the search behind a progress bar, verification, the run."""

from __future__ import annotations

import dataclasses
import math
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from options import Options
from tqdm import tqdm

from bydore_pyro.command_line import progress_bar
from bydore_pyro.cost import Cost
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokens import load_tokens
from bydore_pyro.diagnostics import (
    domain_summary,
    jitter,
    mixture_of,
    posterior_of,
    search_guide_fit,
    trajectory_of,
)
from bydore_pyro.domains import Domains
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Proxy
from bydore_pyro.run_folder import RunFolder, provenance
from bydore_pyro.search import SearchState, averaged_window, init_search, run_search
from bydore_pyro.verification import train_on_mixture

if TYPE_CHECKING:
    import pandas


def load_domains(options: Options) -> tuple[TokenStore, Domains]:
    """Checks everything that can be checked before anything long starts, and loads the data."""
    experiment = options.experiment
    validation = experiment.validation_shares()
    model = options.language_model(vocabulary=300, seed=0)  # a wrong config folder shows here
    longest = getattr(model.config, "max_position_embeddings", experiment.sequence_length)
    if experiment.sequence_length > longest:
        raise DataError(
            f"Expected sequence_length <= {longest}, the most that {experiment.proxy} takes, "
            f"found {experiment.sequence_length}"
        )
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=options.device))
    with progress_bar() as bar:
        corpus = load_tokens(
            experiment.data,
            options.corpus,
            options.tokenizer,
            options.rows,
            needed=(*validation, *(experiment.domains or ())),
            cache=Path(experiment.cache) if experiment.cache else None,
            progress=lambda line: print(line, file=sys.stderr),
            bar=bar,
        )
    return corpus, _domains(options, corpus, validation, experiment.seed)


def _domains(
    options: Options, corpus: TokenStore, validation: dict[str, float], seed: int
) -> Domains:
    experiment = options.experiment
    return Domains(
        corpus,
        validation,
        names=experiment.domains,
        sequence_length=experiment.sequence_length,
        validation_sequences=experiment.validation_sequences,
        seed=seed,
        device=options.device,
    )


@dataclass(frozen=True)
class Found:
    """A finished search and its mixture."""

    state: SearchState
    mixture: Mixture
    summary: pandas.DataFrame


def compared_mixtures(options: Options, domains: Domains) -> dict[str, dict[str, float]]:
    """Reads the mixtures that the learned one is held against, by their files' names."""
    found = {}
    for place in options.experiment.compare:
        mixture = Mixture.from_json(Path(place))
        mixture.check(domains.trainable, domains.corpus.tokenizer_sha256, place)
        found[place] = mixture.as_dict()
    return found


def largest_weights(options: Options, domains: Domains) -> dict[str, float] | None:
    """Returns the largest weights that `--max_epochs` allows, checked to be enough for a run."""
    epochs = options.experiment.max_epochs
    if epochs is None:
        return None
    most = domains.most_weights(epochs, options.run_tokens)
    Mixture(names=domains.names, weights=tuple(uniform_weights(domains).values())).capped(most)
    return most


def search(options: Options, corpus: TokenStore, domains: Domains, folder: RunFolder) -> Found:
    """Runs the search behind a progress bar and writes what it found, also where it breaks off."""
    seed = options.experiment.seed
    model = options.language_model(corpus.vocabulary, seed)
    proxy = Proxy(model, options.proxy)
    state = init_search(domains, proxy, options.search, options.network, seed=seed)
    try:
        with tqdm(total=options.search.steps, desc="search", unit="step", mininterval=0.5) as bar:
            for record in run_search(state):
                leading = sorted(zip(-record.mean, domains.names, strict=True))[:3]
                bar.set_postfix_str(
                    f"validation {record.validation_loss:.3f}, "
                    + ", ".join(f"{name} {-weight:.2f}" for weight, name in leading),
                    refresh=False,
                )
                bar.update()
    except (Exception, KeyboardInterrupt) as error:
        stopped = {"stopped": str(error) or type(error).__name__, "steps": len(state.records)}
        folder.write_json("metrics.json", {**stopped, "search": proxy.cost.report()})
        if state.records:
            write_search(state, options, corpus, folder)
            print(f"The {len(state.records)} steps before it are in {folder.path}", file=sys.stderr)
        raise
    return write_search(state, options, corpus, folder)


def write_search(
    state: SearchState, options: Options, corpus: TokenStore, folder: RunFolder
) -> Found:
    """Writes mixture, posterior, its summary, trajectory and pictures."""
    import matplotlib

    matplotlib.use("Agg")
    from bydore_pyro.plots import plot_losses, plot_posterior, plot_trajectory

    posterior, trajectory = posterior_of(state), trajectory_of(state)
    mixture = mixture_of(
        state, posterior, tokenizer=corpus.tokenizer_sha256, data_sha256=corpus.sha256
    )
    most = largest_weights(options, state.domains)
    if most is not None:
        mixture = mixture.capped(most)
    folder.write_text("mixture.json", mixture.to_json() + "\n")
    folder.write_posterior("posterior.nc", posterior)
    summary = domain_summary(posterior)
    folder.write_text("summary.csv", summary.to_csv(index_label="domain"))
    folder.write_dataset("trajectory.nc", trajectory)
    folder.write_figure("posterior.png", plot_posterior(posterior))
    start = averaged_window(state).start
    folder.write_figure("trajectory.png", plot_trajectory(trajectory, start))
    folder.write_figure("losses.png", plot_losses(trajectory))
    return Found(state, mixture, summary)


def verify(
    options: Options,
    corpus: TokenStore,
    mixtures: dict[str, dict[str, float]],
    steps: int,
    cost: Cost,
    seed: int,
) -> dict[str, float]:
    """Trains a fresh model on each mixture, all from the same start, with the search's tokens.

    The step size falls linearly to zero over the run. Neither the initial weights nor the batches
    of a seed are those of a search with the same seed.

    Returns:
        The validation loss, nats per token, by the mixture's label.
    """
    losses = {}
    seed += 1_000_003
    for label, weights in mixtures.items():
        domains = _domains(options, corpus, options.experiment.validation_shares(), seed)
        # A constant step size would leave the last losses noisier than the mixtures differ.
        model = options.language_model(corpus.vocabulary, seed)
        proxy = Proxy(model, options.proxy, decay_steps=steps)
        training = train_on_mixture(
            domains, proxy, weights, steps, options.search.batch_sequences, seed=seed
        )
        bar = tqdm(training, total=steps, desc=f"verify: {label}", unit="step", mininterval=0.5)
        for loss in bar:
            bar.set_postfix_str(f"training {loss:.3f}", refresh=False)
        with proxy.cost.part("evaluate"):
            losses[label] = proxy.evaluate(domains.validation, "evaluate")
        if not math.isfinite(losses[label]):
            raise NonFiniteError(
                f"The validation loss of a fresh model on {label} weights is {losses[label]}; "
                "a smaller --learning_rate may help"
            )
        for part in ("train", "evaluate"):
            cost.count(f"verify_{part}", proxy.cost.tokens[part], proxy.cost.flops[part])
            cost.seconds[f"verify_{part}"] += proxy.cost.seconds[part]
    return losses


def learned_mixtures(mixture: Mixture) -> dict[str, dict[str, float]]:
    """Returns the learned weights, and what they were before they were capped."""
    found = {"learned": mixture.as_dict()}
    if mixture.free_weights is not None:
        found["learned, not capped"] = dict(zip(mixture.names, mixture.free_weights, strict=True))
    return found


def fixed_mixtures(domains: Domains) -> dict[str, dict[str, float]]:
    """Returns what the learned weights are held against: uniform, the validation's own domain."""
    shares = domains.validation_shares
    uniform = uniform_weights(domains)
    own = max(shares, key=lambda name: shares[name])
    if own not in domains.trainable:
        return {"uniform": uniform}
    return {"uniform": uniform, f"only {own}": {own: 1.0}}


def uniform_weights(domains: Domains) -> dict[str, float]:
    """Returns ``1 / K`` for every domain."""
    return dict.fromkeys(domains.names, 1 / domains.num_domains)


def output_folder(options: Options, name: str) -> RunFolder:
    """Returns the run's folder, checked but not made."""
    return RunFolder(
        Path(options.experiment.out or f"runs/{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    )


def write_inputs(folder: RunFolder, options: Options, corpus: TokenStore, name: str) -> None:
    """Writes what goes into a run (`config.json` makes the folder one) and prints the options."""
    tokenizer = corpus.tokenizer / "tokenizer.json"
    folder.write_text("tokenizer.json", tokenizer.read_text(encoding="utf-8"))
    folder.write_json("manifest.json", corpus.manifest())
    write_config(folder, options, name)


def write_config(folder: RunFolder, options: Options, name: str) -> None:
    """Writes `config.json`, which makes the folder a run, and prints the configuration."""
    parts = dataclasses.asdict(options)
    folder.write_json("config.json", {"name": name, **parts})
    for part, values in parts.items():
        line = ", ".join(f"{key}={value}" for key, value in values.items())
        print(f"{part}: {line}", file=sys.stderr)


def write_search_metrics(
    folder: RunFolder, options: Options, found: Found, losses: dict[str, float], cost: Cost
) -> dict[str, Any]:
    """Writes and returns `metrics.json`: what the run cost and what it reached."""
    state = found.state
    names, last = state.domains.names, state.records[-1]
    means = np.stack([record.mean for record in state.records])
    fit = search_guide_fit(state)
    metrics = {
        "seed": options.experiment.seed,
        "steps": len(state.records),
        "search": state.proxy.cost.report(),
        "verification": cost.report(),
        "validation_loss_nats_per_token": losses,
        "jitter_second_half": jitter(means[len(means) // 2 :]),
        "guide_fit": {
            **dataclasses.asdict(fit),
            "khat": fit.khat if math.isfinite(fit.khat) else "infinite",
        },
        "last_weights": dict(zip(names, means[-1].tolist(), strict=True)),
        "last_concentration_sum": float((last.concentration / last.rate).sum()),
        "epochs": state.domains.epochs(),
        "run_tokens": options.run_tokens,
        "run_epochs": {
            name: weight / state.domains.most_weights(1.0, options.run_tokens)[name]
            for name, weight in found.mixture.as_dict().items()
        },
        "validation_sequences": len(state.domains.validation),
        "peak_memory_megabytes": peak_memory_megabytes(),
        "device": str(options.device),
        "threads": torch.get_num_threads(),
        **provenance(),
    }
    folder.write_json("metrics.json", metrics)
    return metrics


def peak_memory_megabytes() -> int:
    """Returns the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB, bytes on macOS
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024))


def print_results(path: Path, found: Found, metrics: dict[str, Any]) -> None:
    """Prints the tables, what was spent, where things lie and what to do next."""
    print(weights_table(found.mixture, found.summary["verdict"].to_dict(), metrics["run_epochs"]))
    print(losses_table(metrics["validation_loss_nats_per_token"]))
    spent = metrics["search"]
    print(
        f"\nSearch: {metrics['steps']} steps, {spent['tokens']:,} tokens, "
        f"{spent['flops']:.2e} FLOPs, {spent['seconds']:.0f} s; peak memory "
        f"{metrics['peak_memory_megabytes'] / 1024:.1f} GB; "
        f"jitter in the second half {metrics['jitter_second_half']:.3f}"
    )
    fit = metrics["guide_fit"]
    khat = fit["khat"] if isinstance(fit["khat"], str) else f"{fit['khat']:.2f}"
    print(
        f"The last guide against its model with g frozen: PSIS k-hat {khat} (below 0.7 is good), "
        f"{fit['effective_draws']:.0f} effective of {fit['draws']} draws"
    )
    print(
        f"\nIn {path}: mixture.json, summary.csv, posterior.nc, trajectory.nc, metrics.json and "
        "pictures."
    )
    print(f"Next: look at {path / 'posterior.png'} and {path / 'trajectory.png'}, or in Python")
    print(f"  import arviz as az; az.summary(az.from_netcdf('{path / 'posterior.nc'}'))")


def weights_table(
    mixture: Mixture, verdicts: Mapping[str, str], epochs: Mapping[str, float]
) -> str:
    """Returns the weights with their intervals as text, largest first.

    Args:
        mixture: The weights; where they are capped, the free ones stand beside them.
        verdicts: Whether each domain's interval is clear of the uniform share.
        epochs: How many times a run on these weights reads each domain.
    """
    missing = (float("nan"),) * len(mixture.names)
    deviation, free = mixture.standard_deviation or missing, mixture.free_weights or missing
    hdi = mixture.hdi or tuple(zip(missing, missing, strict=True))
    width = max(6, *map(len, mixture.names))
    capped = mixture.free_weights is not None
    lines = [
        f"\n{'domain':<{width}}  weight  {'  free  ' if capped else ''}    sd  "
        f"{f'{mixture.hdi_probability:.0%} HDI':<14}  epochs  than uniform"
    ]
    rows = zip(mixture.weights, mixture.names, free, deviation, hdi, strict=True)
    for weight, name, uncapped, sd, (low, high) in sorted(rows, reverse=True):
        lines.append(
            f"{name:<{width}}  {weight:6.3f}  {f'{uncapped:6.3f}  ' if capped else ''}{sd:6.3f}  "
            f"[{low:.3f}, {high:.3f}]  {epochs[name]:6.2f}  {verdicts[name]}"
        )
    return "\n".join(lines)


def losses_table(losses: dict[str, float]) -> str:
    """Returns the verification's losses as text."""
    width = max(map(len, losses))
    lines = [f"\n{'fresh model trained on':<{max(width, 22)}}  validation loss (nats per token)"]
    lines += [f"{label:<{max(width, 22)}}  {loss:.4f}" for label, loss in losses.items()]
    return "\n".join(lines)


def case(name: str, options: Options) -> None:
    """Searches, verifies, writes and prints: the whole of Case 1 and Case 2."""
    folder = output_folder(options, name)
    corpus, domains = load_domains(options)
    compared = compared_mixtures(options, domains)
    largest_weights(options, domains)
    write_inputs(folder, options, corpus, name)
    found = search(options, corpus, domains, folder)
    mixtures = {**learned_mixtures(found.mixture), **fixed_mixtures(domains), **compared}
    cost = Cost()
    seed = options.experiment.seed
    losses = verify(options, corpus, mixtures, len(found.state.records), cost, seed)
    metrics = write_search_metrics(folder, options, found, losses, cost)
    print_results(folder.path, found, metrics)
