"""Every trainer's format by name, and the configuration of an export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bydore_pyro.export.config_files import (
    BLOCKS,
    for_datasets,
    for_doremi,
    for_levanter,
    for_megatron,
    for_nanotron,
    for_nemo,
    for_olmo_core,
    for_regmix,
    for_streaming,
)
from bydore_pyro.export.python_files import for_litgpt, for_torchtitan
from bydore_pyro.export.shares import Samples, Share
from bydore_pyro.utils import require_finite

__all__ = ["FORMATS", "ExportConfig", "Format"]

DOMAIN = "{domain}"
# The weight of issue 705; the blends of megatron-core 0.16 keep within the samples that they built.
TINY, BLEND = 1e-3, "older Megatron-LM ran out of samples of domains this small (its issue 705)"


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """The format, and what goes into it beside the weights."""

    to: str = field(
        metadata={
            "help": "datasets, streaming, megatron, nemo, nanotron, olmo-core, torchtitan, "
            "levanter, litgpt, regmix or doremi."
        }
    )
    prefix: str | None = field(
        default=None,
        metadata={
            "help": "Where the trainer finds a domain: a folder, or a template such as "
            "/data/{domain}_text_document."
        },
    )
    samples: str | None = field(
        default=None,
        metadata={
            "help": "What the trainer draws: 'sequences' of packed tokens, all of one length, or "
            "'documents'; its habit if not given."
        },
    )
    digits: int = field(default=6, metadata={"help": "Decimals of the weights; they sum to 1."})
    max_repetition_ratio: float = field(
        default=1.0,
        metadata={"help": "olmo-core: how often the tokens of a domain may be repeated."},
    )

    def __post_init__(self) -> None:
        require_finite(self)
        if self.to not in FORMATS:
            raise ValueError(f"Expected a format ({', '.join(FORMATS)}), found '{self.to}'")
        draws = FORMATS[self.to].draws
        if self.samples is not None and self.samples not in draws:
            raise ValueError(
                f"Expected samples ({', '.join(draws)}) for {self.to}, found '{self.samples}'"
            )
        if self.prefix == "":
            raise ValueError("Expected a folder or a template for prefix, found an empty one")
        if any(brace in (self.prefix or "").replace(DOMAIN, "") for brace in "{}"):
            raise ValueError(f"Expected no braces in prefix but {DOMAIN}, found '{self.prefix}'")
        if not 1 <= self.digits <= 12:
            raise ValueError(f"Expected digits in [1, 12], actual {self.digits}")
        if self.max_repetition_ratio < 1:
            raise ValueError(
                f"Expected max_repetition_ratio >= 1, actual {self.max_repetition_ratio}"
            )

    @property
    def drawn(self) -> Samples:
        """What the trainer draws: as asked for, else its habit."""
        draws = FORMATS[self.to].draws
        return next((kind for kind in draws if kind == self.samples), draws[0])

    def path(self, name: str) -> str:
        """Returns where the trainer finds a domain; empty where no prefix was given."""
        if self.prefix is None:
            return ""
        if DOMAIN in self.prefix:
            return self.prefix.replace(DOMAIN, name)
        return f"{self.prefix.rstrip('/')}/{name}"


@dataclass(frozen=True, kw_only=True)
class Format:
    """How one trainer takes weights.

    Attributes:
        write: From shares, and what they are shares of, to the text of a file. Its docstring tells
            the trainer's rules.
        draws: What the weights can be shares of there, its own habit first.
        paths: Whether a prefix is needed, may be given, or has no place in it.
        keeps_zeros: Whether domains without weight stay, as the trainer wants all of its domains
            named; else they are dropped.
        smallest: Weights below are told to the user.
        caution: What may happen to them.
        use: What to do with the file, which is `{file}`.
    """

    write: Callable[[Sequence[Share], Samples], str]
    draws: tuple[Samples, ...]
    paths: Literal["needed", "optional", "unused"]
    keeps_zeros: bool = False
    smallest: float = 0.0
    caution: str = ""
    use: str


FORMATS: dict[str, Format] = {
    "datasets": Format(
        write=for_datasets,
        draws=("documents", "sequences"),
        paths="optional",
        use="given = json.load(open('{file}')); datasets.interleave_datasets([sources[name] for "
        "name in given['names']], **given['interleave_datasets'])",
    ),
    "streaming": Format(
        write=for_streaming,
        draws=("sequences", "documents"),
        paths="needed",
        use="put {file} under train_loader.dataset of llm-foundry's YAML",
    ),
    "megatron": Format(
        write=for_megatron,
        draws=("sequences",),
        paths="needed",
        smallest=TINY,
        caution=BLEND,
        use="train with --data-args-path {file}",
    ),
    "nemo": Format(
        write=for_nemo,
        draws=("sequences",),
        paths="needed",
        smallest=TINY,
        caution=BLEND,
        use="PreTrainingDataModule(paths=json.load(open('{file}')), ...)",
    ),
    "nanotron": Format(
        write=for_nanotron,
        draws=("sequences",),
        paths="needed",
        use="put {file} under data_stages, data, dataset of nanotron's YAML",
    ),
    "olmo-core": Format(
        write=for_olmo_core,
        draws=("tokens",),
        paths="needed",
        use="SourceMixtureDatasetConfig(source_list=SourceMixtureList.from_yaml('{file}'), ...)",
    ),
    "torchtitan": Format(
        write=for_torchtitan,
        draws=("sequences", "documents"),
        paths="unused",
        use="import {file} and set config.dataloader = GrainDataLoader.Config(dataset=mixed(...))",
    ),
    "levanter": Format(
        write=for_levanter,
        draws=("sequences",),
        paths="unused",
        keeps_zeros=True,
        smallest=1 / BLOCKS[-1],
        caution=f"levanter's largest block of {BLOCKS[-1]} sequences has none of these",
        use="put {file} under data of levanter's YAML",
    ),
    "litgpt": Format(
        write=for_litgpt,
        draws=("sequences",),
        paths="needed",
        use="import {file} and give train_dataset(...) to the data module's StreamingDataLoader",
    ),
    "regmix": Format(
        write=for_regmix,
        draws=("sequences",),
        paths="optional",
        use="name validation files under valid, and train with --data_yaml_file {file}",
    ),
    "doremi": Format(
        write=for_doremi,
        draws=("sequences", "documents"),
        paths="unused",
        keeps_zeros=True,
        use="train with --domain_config_path {file}",
    ),
}
