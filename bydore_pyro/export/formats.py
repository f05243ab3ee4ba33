"""Every trainer's format by name (`trainers.yaml`), and the configuration of an export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal

from bydore_pyro.export.config_files import (
    for_datasets,
    for_doremi,
    for_levanter,
    for_litgpt,
    for_megatron,
    for_nanotron,
    for_nemo,
    for_olmo_core,
    for_regmix,
    for_streaming,
    for_torchtitan,
)
from bydore_pyro.export.shares import Samples, Share
from bydore_pyro.utils import DataError, option, require_fields

__all__ = ["FORMATS", "ExportConfig", "Format"]

DOMAIN = "{domain}"


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """The format, and what goes into it beside the weights.

    Raises:
        ValueError: When an option is out of its range, the trainer is unknown or does not draw such
            samples, or `prefix` has braces other than {domain}.
    """

    to: str = option(
        MISSING,
        "The trainer: datasets, streaming, megatron, nemo, nanotron, olmo-core, torchtitan, "
        "levanter, litgpt, regmix or doremi.",
    )
    prefix: str | None = option(
        None,
        "Path at which the trainer finds a domain: a folder, or a template such as "
        "/data/{domain}_text_document.",
    )
    samples: str | None = option(
        None,
        "What the trainer samples: 'sequences' of packed tokens, all of one length, or "
        "'documents'. Default: the usual choice of that trainer.",
    )
    digits: int = option(
        6, "Number of decimals of the weights; the rounded weights sum to 1.", least=1, most=12
    )
    max_repetition_ratio: float = option(
        1.0,
        "olmo-core: maximum number of times that the tokens of a domain may be repeated.",
        least=1,
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if self.to not in FORMATS:
            raise ValueError(f"Expected a format ({', '.join(FORMATS)}), found '{self.to}'")
        draws = FORMATS[self.to].draws
        if self.samples is not None and self.samples not in draws:
            raise ValueError(
                f"Expected samples ({', '.join(draws)}) for {self.to}, found '{self.samples}'"
            )
        if any(brace in (self.prefix or "").replace(DOMAIN, "") for brace in "{}"):
            raise ValueError(f"Expected no braces in prefix but {DOMAIN}, found '{self.prefix}'")

    @property
    def drawn(self) -> Samples:
        """What the trainer draws: as asked for, else its habit."""
        draws = FORMATS[self.to].draws
        return next((kind for kind in draws if kind == self.samples), draws[0])

    def path(self, name: str) -> str:
        """Returns where the trainer finds a domain; empty where no prefix was given.

        Raises:
            DataError: When the domain's name would lead out of the prefix.
        """
        if self.prefix is None:
            return ""
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"Expected a domain whose name can be part of a path, found '{name}'")
        if DOMAIN in self.prefix:
            return self.prefix.replace(DOMAIN, name)
        return f"{self.prefix.rstrip('/')}/{name}"


@dataclass(frozen=True, kw_only=True)
class Format:
    """How one trainer takes weights: an entry of `trainers.yaml`, which tells what each field is,
    and `write`, which makes the text of a file of shares and of what they are shares of."""

    write: Callable[[Sequence[Share], Samples], str]
    rules: str
    draws: tuple[Samples, ...]
    paths: Literal["needed", "optional", "unused"]
    keeps_zeros: bool = False
    smallest: float = 0.0
    caution: str = ""
    use: str


WRITERS: dict[str, Callable[[Sequence[Share], Samples], str]] = {
    "datasets": for_datasets,
    "streaming": for_streaming,
    "megatron": for_megatron,
    "nemo": for_nemo,
    "nanotron": for_nanotron,
    "olmo-core": for_olmo_core,
    "torchtitan": for_torchtitan,
    "levanter": for_levanter,
    "litgpt": for_litgpt,
    "regmix": for_regmix,
    "doremi": for_doremi,
}


def _read() -> dict[str, Format]:
    import yaml

    entries = yaml.safe_load((Path(__file__).parent / "trainers.yaml").read_text("utf-8"))
    draws = {name: tuple(entry.pop("draws")) for name, entry in entries.items()}
    return {n: Format(write=WRITERS[n], draws=draws[n], **entry) for n, entry in entries.items()}


FORMATS: dict[str, Format] = _read()
