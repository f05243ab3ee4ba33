"""A case at the paper's size: search, target training and evaluation, one after the other."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from bydore_pyro.runs import (
    Options,
    begin_run,
    is_finished,
    load_domains,
    plain,
    search,
    search_metrics,
)
from bydore_pyro.utils import option, require_fields, tell

# Vocabulary and sequence length are RegMix's; the tokens are the paper's.
PAPER = {
    "proxy": "models/proxy-1m",
    "tokens": "0.4B",
    "target_tokens": 150e9,
    "max_epochs": 4.0,
    "sequence_length": 2048,
    "vocabulary": 50_432,
    "domain_megabytes": 0.0,
    "precision": "bfloat16",
}


@dataclass(frozen=True, kw_only=True)
class ScaleConfig:
    """At which size a case is run."""

    scale: Literal["cpu", "paper"] = option(
        "cpu",
        "'paper' searches with models/proxy-1m on 0.4B tokens, trains --target_model on "
        "--target_tokens of the mixture found, and scores it on the 13 benchmarks.",
    )
    target_model: str = option("models/target-1b", "With --scale paper: the target model.")
    train_config: str | None = option(
        None, "With --scale paper: file of additional options for bydore train."
    )
    evaluate_config: str | None = option(
        None, "With --scale paper: file of options for bydore evaluate, such as data_dir or hub."
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if self.scale == "cpu" and (self.train_config or self.evaluate_config):
            raise ValueError("Expected --scale paper with --train_config and --evaluate_config")


def paper_case(name: str, options: Options, scale: ScaleConfig, resume: Path | None) -> None:
    """Searches, trains a target model on the mixture with all GPUs, and scores it.

    Each part is left alone where it was finished before.

    Raises:
        SystemExit: With the exit code of a part that failed.
    """
    for file in (scale.train_config, scale.evaluate_config):
        if file is not None and not Path(file).is_file():
            raise ValueError(f"Expected a file of options, found none at {file}")
    folder = begin_run(options, name, resume)
    if not is_finished(folder.path):
        domains = load_domains(options)
        found = search(options, domains, folder, name)
        folder.write_json("metrics.json", plain(search_metrics(options, found)))
    target = folder.path / "target"
    if not (target / "metrics.json").exists():
        run_part(train_arguments(options, scale, folder.path, target), several=True)
    if not (target / "model" / "scores.json").exists():
        extra = ["--config", scale.evaluate_config] if scale.evaluate_config else []
        run_part(["evaluate", str(target / "model"), *extra], several=False)
    tell(f"In {folder.path}: mixture.json, target/model, target/model/scores.json.")


def train_arguments(options: Options, scale: ScaleConfig, run: Path, target: Path) -> list[str]:
    """Returns the command line of the target's training, or of going on with it."""
    if (target / "config.json").exists():
        return ["train", "--resume", str(target)]
    store = load_domains(options).corpus.folder
    return [
        "train",
        *(["--config", scale.train_config] if scale.train_config else []),
        *("--mixture", str(run / "mixture.json"), "--data", str(store)),
        *("--model", scale.target_model, "--tokens", str(int(options.run_tokens))),
        *("--out", str(target)),
        *(["--smoke"] if options.run.smoke else []),
    ]


def run_part(arguments: list[str], *, several: bool) -> None:
    """Runs a command of `bydore` in processes of its own, one a GPU where there are several."""
    gpus = torch.cuda.device_count()
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(gpus)]
    command = [sys.executable, *(launcher if several and gpus > 1 else []), "-m", "bydore_pyro"]
    tell(f"bydore {' '.join(arguments)}")
    done = subprocess.run([*command, *arguments])
    if done.returncode:
        raise SystemExit(done.returncode)
