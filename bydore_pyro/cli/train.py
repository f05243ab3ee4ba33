"""``bydore train``: a target model on a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bydore_pyro.proxy import model_source
from bydore_pyro.training import TargetConfig
from bydore_pyro.utils import (
    one_line_errors,
    option,
    parse_options,
    require_fields,
    resumed_options,
    resumed_run,
    tell,
)

__all__ = ["COMMON", "TrainConfig", "TrainOptions", "train_command"]

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
class TrainConfig:
    """What is trained, on what, and where it goes."""

    mixture: str = option(
        MISSING,
        "The weights: a run's folder or its mixture.json, a file of weights, a published "
        "mixture such as published:doremi, or a JSON or YAML list of stages.",
    )
    data: str = option(MISSING, "Token store, made by bydore prepare.")
    out: str = option(MISSING, "New folder for the run.")
    model: str = option("models/target-60m", "Model: a folder with config.json, or a hub name.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """All options of `bydore train`, by the part that they configure."""

    train: TrainConfig
    target: TargetConfig


@one_line_errors("bydore train")
def train_command(arguments: Sequence[str]) -> None:
    """Trains a target model on exactly a mixture. It also runs under torchrun or accelerate launch.
    --resume DIR continues a run that was stopped, with any number of processes."""
    resume = resumed_run(arguments)
    if resume is not None:
        options = resumed_options(resume, "train", TrainOptions)
    else:
        about = train_command.__doc__ or ""
        options = parse_options(
            arguments,
            "bydore train",
            about,
            TrainOptions,
            smoke=SMOKE,
            common=COMMON,
        )
        # So that it can be gone on with from anywhere.
        data = str(Path(options.train.data).resolve())
        options = replace(options, train=replace(options.train, data=data))
    _train(options, resume)


def _train(options: TrainOptions, resume: Path | None) -> None:
    import transformers

    from bydore_pyro.data import open_store
    from bydore_pyro.training import read_stages, train_target
    from bydore_pyro.utils import number_of_tokens

    # Its bars for every file that it writes, and its warnings of what is checked here anyway.
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    given, config = options.train, options.target
    out = resume or Path(given.out)
    source = given.mixture if resume is None else str(resume / "schedule.json")
    stages = read_stages(source, number_of_tokens(config.tokens))
    store = open_store(Path(given.data))
    metrics = train_target(
        model_source(given.model),
        store,
        stages,
        config,
        out,
        resume=resume is not None,
        options=asdict(options),
        tell=tell,
    )
    print(_told(metrics, out / "model"))


def _told(metrics: dict[str, Any], model: Path) -> str:
    """Returns what a training came to as text."""
    tokens = metrics["tokens_by_domain"]
    width = max(6, *map(len, tokens))
    lines = [f"\n{'domain':<{width}}  {'tokens':>17}   share  epochs"]
    for name in sorted(tokens, key=lambda name: -tokens[name]):
        lines.append(
            f"{name:<{width}}  {tokens[name]:>17,}  {tokens[name] / metrics['tokens']:6.4f}  "
            f"{metrics['epochs'][name]:6.2f}"
        )
    if metrics["final_loss"] is not None:
        lines.append(f"\nlast training loss {metrics['final_loss']:.4f} nats per token")
    lines.append(
        f"{metrics['tokens']:,} tokens; {metrics['tokens_per_second']:,.0f} a second in "
        f"{metrics['seconds']:.0f} s\nIn {model}: the model and its tokenizer, for from_pretrained."
    )
    return "\n".join(lines)
