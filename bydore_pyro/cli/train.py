"""``bydore train``: a target model on a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bydore_pyro import proxy, setup, terminal, training
from bydore_pyro.command_line import (
    Checked,
    number_of_tokens,
    one_line_errors,
    option,
    parse_options,
    resumed_options,
    resumed_run,
    warn_idle,
)
from bydore_pyro.data import CorpusConfig
from bydore_pyro.errors import DataError

if TYPE_CHECKING:
    from bydore_pyro.data import TokenStore

# What `--help` lists; `--help-all` adds the others.
COMMON = (
    *("mixture", "data", "out", "model", "tokens", "sequence_length", "device_batch_sequences"),
    *("learning_rate", "device", "smoke"),
)
# Seconds on a CPU; an option given beside --smoke wins over these.
SMOKE = {
    "model": "models/target-tiny",
    "tokens": "2K",
    "sequence_length": 32,
    "target_batch_sequences": 8,
    "device_batch_sequences": 4,
    "device": "cpu",
    "loader_workers": 0,
    "log_every": 1,
    "save_every": 4,
}


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Checked):
    """What to train, on what text, and where it goes."""

    mixture: str = option(
        MISSING,
        "The weights: a run's folder or its mixture.json, a file of weights, a published "
        "mixture such as published:doremi, a JSON or YAML list of stages, or 'natural' (the "
        "domains' own sizes; of a sampled one, that of all its text).",
    )
    data: str = option(
        MISSING, "Token store, made by bydore prepare, or shards, as bydore search takes them."
    )
    add: list[str] = option(
        [],
        "Token stores whose domains are trained on too, as for bydore ask: a domain of the same "
        "name replaces the one of --data.",
    )
    out: str = option(MISSING, "New folder for the run.")
    model: str = option("models/target-60m", "Model: a folder with config.json, or a hub name.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class ShardsConfig(Checked):
    """How shards are read, as for bydore search."""

    tokenizer: str | None = option(None, "Tokenizer of the shards: a folder, or a hub name.")
    separator: int | None = option(None, "Token that divides documents.", least=0)
    token_bytes: Literal[2, 4, 8] | None = option(None, "Bytes of a token, where no file says.")
    validation_fraction: float = option(
        CorpusConfig().validation_fraction,
        "Share that is held out where no shards are.",
        above=0,
        below=1,
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """All options of `bydore train`, by the part that they configure."""

    train: TrainConfig
    shards: ShardsConfig
    target: training.TargetConfig


@one_line_errors("bydore train")
def train_command(arguments: Sequence[str]) -> None:
    """Trains a target model on exactly a mixture. It also runs under torchrun or accelerate launch.
    --resume DIR continues a run that was stopped, with any number of processes."""
    resume = resumed_run(arguments)
    if resume is not None:
        options = resumed_options(resume, "train", TrainOptions)
    else:
        about = train_command.__doc__ or ""
        options = _settled(
            parse_options(
                arguments, "bydore train", about, TrainOptions, smoke=SMOKE, common=COMMON
            )
        )
    _train(options, resume)


def _settled(options: TrainOptions) -> TrainOptions:
    tokenizer = options.shards.tokenizer
    train = replace(
        options.train,
        data=setup.absolute(options.train.data),
        add=[str(Path(place).absolute()) for place in options.train.add],
    )
    shards = replace(options.shards, tokenizer=tokenizer and setup.absolute(tokenizer))
    return replace(options, train=train, shards=shards)


def _train(options: TrainOptions, resume: Path | None) -> None:
    import transformers

    # Its bars for every file that it writes, and its warnings of what is checked here anyway.
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    given, out = options.train, resume or Path(options.train.out)
    store = _store_of(given.data, options.shards, given.add)
    metrics = training.train_target(
        proxy.model_source(given.model),
        store,
        _stages_of(given.mixture, store, options.target, resume),
        options.target,
        out,
        resume=resume is not None,
        options=asdict(options),
        read_on=_with_targets(given.mixture, store, options.target.sequence_length),
    )
    print(_as_text(metrics, out / "model"))


def _stages_of(
    mixture: str, store: TokenStore, target: training.TargetConfig, resume: Path | None
) -> training.Stages:
    """Returns the mixture, or the mixtures, of the run: as `--mixture` names them, or as the run
    that is continued has written them."""
    from bydore_pyro.mixture import normalised

    if resume is None and mixture == setup.NATURAL:
        return training.Stages.constant(normalised(store.natural(), str(store.folder)))
    return training.read_stages(
        str(resume / training.SCHEDULE) if resume else mixture,
        number_of_tokens(target.tokens),
        store,
    )


def _with_targets(mixture: str, store: TokenStore, sequence_length: int) -> TokenStore:
    """Returns the text with the files and tasks that the mixture was made for, where it is named by
    the folder of its search or answer and they are still there."""
    if not (Path(mixture) / "config.json").is_file():
        return store
    try:
        return setup.with_targets_of(store, Path(mixture), sequence_length)
    except DataError as error:
        terminal.tell(f"warning: no losses on the targets of {mixture}: {error}")
        return store


def _store_of(data: str, given: ShardsConfig, added: Sequence[str]) -> TokenStore:
    from bydore_pyro.data import TokenizerConfig, joined_stores, open_store
    from bydore_pyro.shards import names_shards, open_shards

    named = asdict(given)
    if names_shards(data):
        corpus = CorpusConfig(validation_fraction=named.pop("validation_fraction"))
        store = open_shards(data, corpus, TokenizerConfig(**named))
    else:
        warn_idle(given, tuple(named), "a token store, which says it itself")
        store = open_store(Path(data))
    for place in added:
        store = joined_stores(store, open_store(Path(place)))
    return store


def _as_text(metrics: dict[str, Any], model: Path) -> str:
    held_out = metrics["held_out_loss_nats_per_token"]
    tokens = {**dict.fromkeys(held_out, 0), **metrics["tokens_by_domain"]}
    rows = [
        (
            name,
            f"{count:,}",
            f"{count / metrics['tokens']:.4f}",
            f"{metrics['epochs'].get(name, 0.0):.2f}",
            f"{held_out[name]:.4f}" if name in held_out else "-",
        )
        for name, count in sorted(tokens.items(), key=lambda item: -item[1])
    ]
    header = ("domain", "tokens", "share", "epochs", "held-out loss")
    lines = ["", terminal.Table(header=header, rows=rows).as_text()]
    if held_out:
        sequences = max(metrics["held_out_sequences"].values())
        lines.append(
            f"\nheld-out losses in nats per token, each on at most {sequences} held-out sequences"
        )
    for name, task in metrics["tasks"].items():
        lines.append(
            f"target '{name}': {task['loss']:.4f} {task['unit']}, on {task['sequences']} questions"
        )
    if metrics["final_loss"] is not None:
        lines.append(f"last training loss {metrics['final_loss']:.4f} nats per token")
    lines.append(
        f"{metrics['tokens']:,} tokens; {metrics['tokens_per_second']:,.0f} a second in "
        f"{metrics['seconds']:.0f} s\nIn {model}: the model and its tokenizer, for from_pretrained."
    )
    return "\n".join(lines)
