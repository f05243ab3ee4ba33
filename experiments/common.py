"""What the experiments share: options, the search with its progress bar, verification, the run."""

from __future__ import annotations

import argparse
import dataclasses
import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from tqdm import tqdm

from bydore_pyro.corpus import CorpusConfig
from bydore_pyro.cost import Cost
from bydore_pyro.diagnostics import jitter, mixture_of, posterior_of, trajectory_of
from bydore_pyro.domains import Domains
from bydore_pyro.errors import DataError, NonFiniteError, RunFolderError
from bydore_pyro.mixture import Mixture
from bydore_pyro.prior_net import PriorNetworkConfig
from bydore_pyro.proxy import Proxy, ProxyConfig, build_language_model
from bydore_pyro.run_folder import RunFolder, provenance
from bydore_pyro.search import (
    SearchConfig,
    SearchState,
    averaged_window,
    init_search,
    run_search,
)
from bydore_pyro.tokens import TokenCorpus, TokenizerConfig, load_tokens
from bydore_pyro.verification import train_on_mixture

ROOT = Path(__file__).resolve().parents[1]
# Seconds instead of minutes; an option given beside --smoke wins over these.
SMOKE = {
    "domain_megabytes": 0.15,
    "vocabulary": 300,
    "sequence_length": 32,
    "steps": 6,
    "guide_warmup": 1,
    "batch_sequences": 8,
    "signal_sequences": 1,
    "validation_batch": 8,
    "validation_sequences": 32,
}


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """What is run, on what, and where the results go."""

    data: str = field(
        default="environment",
        metadata={
            "help": "'environment' (the text of the Python environment), or a folder whose "
            "sub-folders are domains of UTF-8 text files."
        },
    )
    domains: list[str] | None = field(
        default=None, metadata={"help": "Domains to train on; all of the data when not given."}
    )
    validation: list[str] = field(
        default_factory=lambda: ["docstrings"],
        metadata={
            "help": "Domains whose held-out text is the validation set, as NAME or NAME=SHARE."
        },
    )
    proxy: str = field(
        default="models/proxy-tiny",
        metadata={"help": "Proxy model: a folder with config.json, or a hub name."},
    )
    sequence_length: int = field(default=128, metadata={"help": "Tokens in a sequence."})
    validation_sequences: int = field(
        default=512, metadata={"help": "Most sequences in the validation set."}
    )
    seed: int = field(default=0, metadata={"help": "Seed of models, search and batches."})
    device: str = field(
        default="auto", metadata={"help": "'cpu', 'cuda', or 'auto': a GPU if there is one."}
    )
    out: str | None = field(
        default=None, metadata={"help": "Folder of the run; runs/<experiment>-<time> if not given."}
    )
    cache: str | None = field(
        default=None, metadata={"help": "Folder of cached tokens; the user's cache if not given."}
    )
    smoke: bool = field(
        default=False, metadata={"help": "A run of seconds that only shows that all parts work."}
    )

    def __post_init__(self) -> None:
        if self.sequence_length < 2:
            raise ValueError(f"Expected sequence_length >= 2, actual {self.sequence_length}")
        if self.validation_sequences < 1:
            raise ValueError(
                f"Expected validation_sequences >= 1, actual {self.validation_sequences}"
            )

    def validation_shares(self) -> dict[str, float]:
        """Returns the validation set as shares by domain."""
        shares: dict[str, float] = {}
        for entry in self.validation:
            name, _, share = entry.partition("=")
            try:
                value = float(share) if share else 1.0
            except ValueError:
                raise ValueError(f"Expected --validation NAME=SHARE, found '{entry}'") from None
            if name in shares:
                raise ValueError(f"Expected every validation domain once, found '{name}' twice")
            shares[name] = value
        return shares


@dataclass(frozen=True, kw_only=True)
class Options:
    """All options of a run, by the part that they configure."""

    experiment: ExperimentConfig
    corpus: CorpusConfig
    tokenizer: TokenizerConfig
    proxy: ProxyConfig
    network: PriorNetworkConfig
    search: SearchConfig

    @property
    def device(self) -> torch.device:
        """The device that `--device` names."""
        name = self.experiment.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(name)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(
                f"Expected a device of this machine, found '{name}': {reason}"
            ) from None
        return device

    def proxy_source(self) -> str:
        """The proxy's folder, also when it is named relative to the project, or its hub name."""
        named = Path(self.experiment.proxy)
        return str(next((p for p in (named, ROOT / named) if p.is_dir()), named))

    def language_model(self, vocabulary: int, seed: int) -> torch.nn.Module:
        """Builds the proxy with fresh weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = build_language_model(self.proxy_source(), vocabulary)
        return model.to(self.device)


def run_main(experiment: Callable[[Options], None], name: str, about: str, **defaults: Any) -> None:
    """Parses the command line and runs an experiment; what a user can mend ends with exit code 2.

    Args:
        experiment: Takes the options.
        name: The experiment's name, also that of its run folder.
        about: The text of `--help`.
        defaults: The experiment's own defaults of options.
    """
    try:
        experiment(parse_options(sys.argv[1:], name, about, defaults))
    except (DataError, RunFolderError, NonFiniteError, ValueError) as error:
        _fail(name, str(error))
    except OSError as error:
        _fail(name, f"{error.strerror or error}: {error.filename or 'no file named'}")
    except KeyboardInterrupt:
        _fail(name, "interrupted", code=130)


def parse_options(
    arguments: Sequence[str], name: str, about: str, defaults: dict[str, Any]
) -> Options:
    """Turns command-line arguments into options; an unknown one ends with one line, exit code 2."""
    from transformers import HfArgumentParser

    class Parser(HfArgumentParser):
        def error(self, message: str) -> NoReturn:
            _fail(name, message)

    configurations = tuple(_class_of(f.type) for f in dataclasses.fields(Options))
    parser = Parser(
        configurations,
        prog=f"{name}.py",
        description=about,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    # Which options apply is known before the rest is parsed, so that explicit ones win.
    parser.set_defaults(**{**defaults, **(SMOKE if "--smoke" in arguments else {})})
    *parsed, rest = parser.parse_args_into_dataclasses(
        list(arguments), return_remaining_strings=True, look_for_args_file=False
    )
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    keys = [f.name for f in dataclasses.fields(Options)]
    return Options(**dict(zip(keys, parsed, strict=True)))


def load_domains(options: Options) -> tuple[TokenCorpus, Domains]:
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
    corpus = load_tokens(
        experiment.data,
        options.corpus,
        options.tokenizer,
        cache=Path(experiment.cache) if experiment.cache else None,
        progress=lambda line: print(line, file=sys.stderr),
    )
    return corpus, _domains(options, corpus, validation, experiment.seed)


def _domains(
    options: Options, corpus: TokenCorpus, validation: dict[str, float], seed: int
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


def search(options: Options, corpus: TokenCorpus, domains: Domains, folder: RunFolder) -> Found:
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
    except (NonFiniteError, KeyboardInterrupt):
        if state.records:
            write_search(state, corpus, folder)
            print(f"The {len(state.records)} steps before it are in {folder.path}", file=sys.stderr)
        raise
    return Found(state, write_search(state, corpus, folder))


@dataclass(frozen=True)
class Found:
    """A finished search and its mixture."""

    state: SearchState
    mixture: Mixture


def write_search(state: SearchState, corpus: TokenCorpus, folder: RunFolder) -> Mixture:
    """Writes mixture, posterior, trajectory and pictures."""
    import hashlib

    import matplotlib

    matplotlib.use("Agg")
    from bydore_pyro.plots import plot_losses, plot_posterior, plot_trajectory

    posterior, trajectory = posterior_of(state), trajectory_of(state)
    tokenizer = hashlib.sha256(corpus.tokenizer.read_bytes()).hexdigest()
    mixture = mixture_of(state, posterior, tokenizer=tokenizer, data_sha256=corpus.sha256)
    folder.write_posterior("posterior.nc", posterior)
    folder.write_dataset("trajectory.nc", trajectory)
    folder.write_figure("posterior.png", plot_posterior(posterior))
    start = averaged_window(state).start
    folder.write_figure("trajectory.png", plot_trajectory(trajectory, start))
    folder.write_figure("losses.png", plot_losses(trajectory))
    folder.write_text("tokenizer.json", corpus.tokenizer.read_text(encoding="utf-8"))
    folder.write_json("manifest.json", corpus.manifest)
    folder.write_text("mixture.json", mixture.to_json() + "\n")
    return mixture


def verify(
    options: Options,
    corpus: TokenCorpus,
    mixtures: dict[str, dict[str, float]],
    steps: int,
    cost: Cost,
) -> dict[str, float]:
    """Trains a fresh model on each mixture, all from the same start, with the search's tokens.

    Returns:
        The validation loss, nats per token, by the mixture's label.
    """
    losses = {}
    for label, weights in mixtures.items():
        # Neither initial weights nor batches are those of the search.
        seed = options.experiment.seed + 1_000_003
        domains = _domains(options, corpus, options.experiment.validation_shares(), seed)
        proxy = Proxy(options.language_model(corpus.vocabulary, seed), options.proxy)
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


def fixed_mixtures(domains: Domains) -> dict[str, dict[str, float]]:
    """Returns what the learned weights are held against: uniform, the validation's own domain."""
    shares = domains.validation_shares
    uniform = dict.fromkeys(domains.names, 1 / domains.num_domains)
    own = max(shares, key=lambda name: shares[name])
    if own not in domains.trainable:
        return {"uniform": uniform}
    return {"uniform": uniform, f"only {own}": {own: 1.0}}


def output_folder(options: Options, name: str) -> RunFolder:
    """Returns the run's folder, checked but not made."""
    return RunFolder(
        Path(options.experiment.out or f"runs/{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    )


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
    names, means = state.domains.names, np.stack([record.mean for record in state.records])
    metrics = {
        "seed": options.experiment.seed,
        "steps": len(state.records),
        "search": state.proxy.cost.report(),
        "verification": cost.report(),
        "validation_loss_nats_per_token": losses,
        "jitter_second_half": jitter(means[len(means) // 2 :]),
        "last_weights": dict(zip(names, means[-1].tolist(), strict=True)),
        "epochs": state.domains.epochs(),
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


def print_results(path: Path, mixture: Mixture, metrics: dict[str, Any]) -> None:
    """Prints the tables, what was spent, where things lie and what to do next."""
    print(weights_table(mixture))
    print(losses_table(metrics["validation_loss_nats_per_token"]))
    spent = metrics["search"]
    print(
        f"\nSearch: {metrics['steps']} steps, {spent['tokens']:,} tokens, "
        f"{spent['flops']:.2e} FLOPs, {spent['seconds']:.0f} s; peak memory "
        f"{metrics['peak_memory_megabytes'] / 1024:.1f} GB; "
        f"jitter in the second half {metrics['jitter_second_half']:.3f}"
    )
    print(f"\nIn {path}: mixture.json, posterior.nc, trajectory.nc, metrics.json and pictures.")
    print(f"Next: look at {path / 'posterior.png'} and {path / 'trajectory.png'}, or in Python")
    print(f"  import arviz as az; az.summary(az.from_netcdf('{path / 'posterior.nc'}'))")


def weights_table(mixture: Mixture) -> str:
    """Returns the weights with their intervals as text, largest first."""
    deviation = mixture.standard_deviation or (float("nan"),) * len(mixture.names)
    hdi = mixture.hdi or ((float("nan"), float("nan")),) * len(mixture.names)
    width = max(6, *map(len, mixture.names))
    interval = f"{mixture.hdi_probability:.0%} HDI"
    lines = [f"\n{'domain':<{width}}  weight      sd  {interval}"]
    rows = sorted(zip(mixture.weights, mixture.names, deviation, hdi, strict=True), reverse=True)
    for weight, name, sd, (low, high) in rows:
        lines.append(f"{name:<{width}}  {weight:6.3f}  {sd:6.3f}  [{low:.3f}, {high:.3f}]")
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
    write_config(folder, options, name)
    found = search(options, corpus, domains, folder)
    mixtures = {"learned": found.mixture.as_dict(), **fixed_mixtures(domains)}
    cost = Cost()
    losses = verify(options, corpus, mixtures, len(found.state.records), cost)
    metrics = write_search_metrics(folder, options, found, losses, cost)
    print_results(folder.path, found.mixture, metrics)


def _class_of(annotation: Any) -> type:
    return globals()[annotation] if isinstance(annotation, str) else annotation


def _fail(name: str, message: str, code: int = 2) -> NoReturn:
    print(f"{name}: error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
