"""The options of a search, by the part that they configure."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from bydore_pyro import algorithm1, measure, mixture, pieces, terminal
from bydore_pyro.command_line import (
    Checked,
    number_of_tokens,
    option,
    options_of,
    parse_options,
    resumed_options,
    resumed_run,
    warn_idle,
)
from bydore_pyro.data import CorpusConfig, RowConfig, TokenizerConfig
from bydore_pyro.errors import expecting
from bydore_pyro.proxy import ProxyConfig
from bydore_pyro.setup.places import absolute
from bydore_pyro.setup.question_config import QuestionConfig

if TYPE_CHECKING:
    import torch

# Seconds instead of minutes; an option given beside --smoke wins over these.
SMOKE = {
    "domain_megabytes": 0.15,
    "tokenizer_megabytes": 1.0,
    "vocabulary": 300,
    "sequence_length": 32,
    "steps": 6,
    "guide_warmup": 1,
    "rounds": 2,
    "round_sequences": 8,
    "check_sequences": 2,
    "trials": 2,
    "batch_sequences": 8,
    "validation_batch": 8,
    "validation_sequences": 32,
}


ENVIRONMENT = "environment"
# Options of one evidence, which have no effect with the other; --smoke sets some of them.
OF_MATCHING = ("sketch_size", "branches", "branch_steps", "trial_share")
OF_MATCHING_IN_SMOKE = ("rounds", "round_sequences", "check_sequences", "trials")
OF_LINEAR = ("signal_sequences", "signal_domains", "strategy", "guide_learning_rate", "kl_weight")
OF_LINEAR_IN_SMOKE = ("guide_warmup", "validation_batch")


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """What is run, on what, and where the results go.

    Raises:
        ValueError: When an option is out of its range.
    """

    data: str = option(
        ENVIRONMENT,
        "A token store, made by bydore prepare; a folder whose sub-folders or files are domains; "
        "DATA/**, whose domains are all folders that hold files, named by their paths; "
        "a JSON or YAML file that lists domains; 'environment' (the text of the Python "
        "environment); 'pile:' followed by the folder or hub name of a copy of the Pile; token "
        "shards of a trainer, as 'megatron:' or another format followed by a folder, prefix "
        "or pattern, with --tokenizer. With "
        "--domain_column also a file or folder of rows, or 'hub:' followed by a dataset's name. "
        "If it is no store, at most --domain_megabytes of each domain are read.",
    )
    domains: list[str] | None = option(
        None,
        "Domains to train on. A path such as web/legal means all domains below it. Default: all.",
    )
    evidence: Literal["matching", "linear"] = option(
        "matching",
        "Evidence from which the weights are learned. 'matching' trains the proxy on equal "
        "weights, measures the gradients of all domains in a few rounds and their responses to "
        "branches, and finds the mixture that matches those of the validation set. 'linear' is "
        "the paper's Algorithm 1: one hypergradient per step. Options whose help begins with "
        "'Matching' or 'Linear' apply only to that evidence.",
    )
    proxy: str = option(
        "models/proxy-tiny", "Proxy model: a folder with config.json, or a hub name."
    )
    checkpoint: str | None = option(
        None,
        "A model in training, a Hugging Face folder: its gradients are measured, once, in place of "
        "a proxy's. Nothing is trained. The weights are for its next stage.",
    )
    consumed: str | None = option(
        None,
        "File of the tokens that the model has read of each domain, such as a training's "
        "metrics.json. They count in --max_epochs and, as text that was read, in --target_tokens.",
    )
    sequence_length: int = option(128, "Tokens in a sequence.", least=2)
    validation_sequences: int = option(
        512, "Maximum number of sequences in the validation set.", least=1
    )
    repetition_constant: float = option(
        mixture.REPETITION_CONSTANT,
        "Matching, with --target_tokens: constant R, the number of epochs after which the value"
        " of a further epoch has fallen to 1/e. The default is that of arXiv 2305.16264.",
        above=0,
    )
    tokens: str | None = option(
        None,
        "Length of the search in training tokens, such as 4e6 or 0.4B. Default: --steps batches.",
    )
    seed: int = option(0, "Seed of the models, the search and the batches.", least=0, below=2**31)
    device: str = option("auto", "'cpu', 'cuda', or 'auto': a GPU if there is one.")
    cluster: str | None = option(None, pieces.CLUSTER)
    out: str | None = option(None, "Folder of the run. Default: runs/<command>-<time>.")
    checkpoint_every: int = option(50, "Steps between two checkpoints; 0 writes none.", least=0)
    cache: str | None = option(None, "Folder of cached token stores. Default: the user's cache.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoint is not None:
            warn_idle(self, ("proxy",), "a checkpoint")

    @property
    def model(self) -> str:
        """The model that is measured: a folder or a hub name."""
        return self.checkpoint or self.proxy

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            data=self.data if self.data == ENVIRONMENT else absolute(self.data),
            # Our own models are found from anywhere.
            proxy=self.proxy if self.proxy.startswith("models/") else absolute(self.proxy),
            checkpoint=self.checkpoint and absolute(self.checkpoint),
            consumed=self.consumed and absolute(self.consumed),
        )


def options_in(run: Path) -> Options:
    """Returns the options of the search, or of the answer, whose folder this is.

    Raises:
        DataError: When it is none, or one of another version.
    """
    parts = typing.get_type_hints(Options)
    with expecting(f"Expected a search's folder, found {run}:", Exception):
        content = json.loads((run / "config.json").read_text(encoding="utf-8"))
        if missing := [part for part in parts if part not in content]:
            raise ValueError(f"a run of another version, without options of '{missing[0]}'")
        return options_of({part: content[part] for part in parts}, Options)


@dataclass(frozen=True, kw_only=True)
class Options:
    """All options of a run, by the part that they configure.

    Raises:
        ValueError: When a round has no step, the kind of evidence does not answer what is asked, or
            an option needs `target_tokens`.
    """

    run: RunConfig
    question: QuestionConfig
    corpus: CorpusConfig
    rows: RowConfig
    tokenizer: TokenizerConfig
    proxy: ProxyConfig
    search: measure.MatchingConfig
    linear: algorithm1.LinearConfig

    def __post_init__(self) -> None:
        steps, rounds = self.search.steps, self.search.rounds
        if self.run.evidence == "matching" and steps < 2 ** (rounds - 1):
            raise ValueError(
                f"Expected steps >= {2 ** (rounds - 1)} for {rounds} rounds, each after half the "
                f"steps of the next, actual {steps}"
            )
        if self.run.evidence == "linear" and not self.proxy.learning_rate:
            raise ValueError("Expected --learning_rate > 0 with --evidence linear, found 0")
        if self.run.evidence == "linear" and self.run.checkpoint is not None:
            raise ValueError("Expected --evidence matching with --checkpoint, found linear")
        asked = self.question
        known = self.run.evidence == "matching" and self.run.checkpoint is None
        if not known and (asked.objective != "mean" or asked.guard):
            asking = "--guard" if asked.guard else f"--objective {asked.objective}"
            raise ValueError(
                f"Expected --evidence matching and a proxy, whose losses are read, with {asking}, "
                "found a checkpoint or linear evidence"
            )
        needs = {
            "consumed": self.run.consumed,
            "max_epochs": self.run.checkpoint and asked.max_epochs,
        }
        for name, value in needs.items():
            if value is not None and asked.target_tokens is None:
                raise ValueError(f"Expected --target_tokens with --{name}, found none")
        if self.run.evidence == "linear" and asked.at_least:
            raise ValueError("Expected --evidence matching with --at_least, found linear")

    def measured_sequences(self, num_domains: int) -> int:
        """Returns how many sequences of each domain are kept for measuring."""
        if self.run.evidence == "linear":
            return 0
        return self.search.measured_sequences(num_domains)

    @property
    def device(self) -> torch.device:
        """The device that `--device` names."""
        return terminal.device_named(self.run.device)

    @property
    def run_tokens(self) -> float:
        """Length of the run that the weights are for, in tokens."""
        return self.question.target_tokens or self.search.steps * self.batch_tokens

    @property
    def batch_tokens(self) -> int:
        """Tokens in a training batch."""
        return self.search.batch_sequences * self.run.sequence_length

    def resolved(self) -> Self:
        """Returns options with absolute paths, the environment's own target, and the steps that
        `tokens` or `checkpoint` imply; warns of options that have no effect."""
        run, question, search = self.run.anywhere(), self.question.anywhere(), self.search
        question.warn_of_idle()
        if not question.validation and run.data == ENVIRONMENT:
            question = dataclasses.replace(question, validation=["docstrings"])
        if question.target_tokens is None:
            warn_idle(run, ("repetition_constant",), "no target_tokens")
        if run.evidence == "linear":
            warn_idle(search, OF_MATCHING, "evidence linear")
            warn_idle(search, () if run.smoke else OF_MATCHING_IN_SMOKE, "evidence linear")
        else:
            warn_idle(self.linear, OF_LINEAR, "evidence matching")
            warn_idle(self.linear, () if run.smoke else OF_LINEAR_IN_SMOKE, "evidence matching")
        if run.checkpoint is not None:
            if not run.smoke:
                idle = ("steps", "rounds", "branches", "branch_steps", "trials", "trial_share")
                warn_idle(search, idle, "a checkpoint")
            run = dataclasses.replace(run, checkpoint_every=0)  # it would hold the model again
            search = dataclasses.replace(search, rounds=1, branches=0, trials=0)
        elif run.tokens is not None:
            steps = math.ceil(number_of_tokens(run.tokens) / self.batch_tokens)
            search = dataclasses.replace(search, steps=steps)
        return dataclasses.replace(self, run=run, question=question, search=search)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Returns plain values, by part and name."""
        return dataclasses.asdict(self)


T = TypeVar("T", bound=Options)


def options_or_resumed(
    arguments: Sequence[str],
    name: str,
    about: str,
    kind: type[T],
    smoke: Mapping[str, Any] = SMOKE,
    common: Sequence[str] | None = None,
) -> tuple[T, Path | None]:
    """Returns the options of a command line (see `parse_options`), and the folder of the run that
    `--resume` names."""
    resume = resumed_run(arguments)
    if resume is not None:
        return resumed_options(resume, name.removeprefix("bydore "), kind), resume
    options = parse_options(arguments, name, about, kind, None, smoke, common)
    return options.resolved(), None
