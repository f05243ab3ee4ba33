"""Every trainer's format by name: its rules (`trainers.yaml`), and the text of its file.

"Sequences" are cut from packed tokens, all of one length: a share of them is a share of tokens,
which is what a mixture's weights are. "Documents" have their own lengths: a share of them is not.
"Epochs" say how often a domain's text is read: they depend on its size and on the run's length.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from bydore_pyro.command_line import Checked, TokenCount, option
from bydore_pyro.data import read_list
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import MOST_EPOCHS, SAID, SEQUENCE_LENGTH, Unit

DOMAIN = "{domain}"
Samples = Literal["tokens", "sequences", "documents", "epochs"]
UNIT_OF: dict[Samples, Unit] = {
    "tokens": "tokens",
    "sequences": "tokens",
    "documents": "documents",
    "epochs": "epochs",
}
BLOCKS = tuple(2**n for n in range(11, 16))  # levanter's default block of 2048, up to its largest


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a trainer's file says of one domain: its number, its paths, and how often the run reads
    it, as far as they are known."""

    name: str
    weight: float
    paths: tuple[str, ...] = ()
    epochs: float | None = None

    @property
    def path(self) -> str:
        """The one path of the domain, for a trainer that takes no more; empty without paths."""
        return self.paths[0] if self.paths else ""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How one trainer takes weights: an entry of `trainers.yaml`, which explains the fields, and
    `write`, which makes the text of a file of shares."""

    write: Callable[[Sequence[Share], Samples], str]
    rules: str
    number: str
    means: str
    draws: tuple[Samples, ...]
    paths: Literal["needed", "optional", "unused"]
    keeps_zeros: bool = False
    many_paths: bool = False
    smallest: float = 0.0
    most_epochs: float = math.inf
    caution: str = ""
    use: str
    stage: str = ""


@dataclass(frozen=True, kw_only=True)
class ExportConfig(Checked):
    """The format, and what goes into it beside the weights.

    Raises:
        ValueError: When an option is out of its range, the trainer is unknown or does not draw such
            samples, or `prefix` has braces other than {domain}.
    """

    to: str = option(
        MISSING,
        "The trainer: datasets, streaming, megatron, nemo, nanotron, olmo-core, torchtitan, "
        "levanter, litgpt, regmix, doremi, trl, axolotl or megatron-bridge.",
    )
    prefix: str | None = option(
        None,
        "Path at which the trainer finds a domain: a folder, or a template such as "
        "/data/{domain}_text_document.",
    )
    paths: str | None = option(
        None, "In place of --prefix: a JSON or YAML list of domains with the path or paths of each."
    )
    samples: str | None = option(
        None,
        "What the trainer samples: 'sequences' of packed tokens, all of one length, or "
        "'documents'. Default: the usual choice of that trainer.",
    )
    tokens: TokenCount | None = option(
        None,
        "Length of your training, such as 10B: prints and writes what it reads of every domain, in "
        "tokens, epochs and documents.",
        above=0,
    )
    domain_tokens: list[str] = option(
        [],
        "Tokens that there are of each domain, if the text of your training is not that of the "
        "search or of --data: a file, such as 'web: 1.3T', or NAME=TOKENS.",
    )
    repeat: float = option(
        MOST_EPOCHS,
        "How many times your training may read a domain: with --tokens, weights that repeat one "
        "more often are refused.",
        above=0,
    )
    sequence_length: int = option(
        SEQUENCE_LENGTH,
        "Tokens in a sequence of your training, by which --tokens tells the domains of which none "
        "is drawn.",
        least=1,
    )
    from_step: int | None = option(
        None,
        "Step of the trainer from which it uses the weights. The file is then the next stage, for "
        "levanter, nanotron, megatron or olmo-core.",
        least=1,
    )
    data: str | None = option(
        None,
        "Token store, which supplies the sizes of domains, tokens per document, and the text for "
        "--tokenizer. Default: the counts saved with the run.",
    )
    tokenizer: str | None = option(
        None,
        "Folder of the tokenizer of your training, if it is not that of the search. With --data "
        "the weights become shares of its tokens, by the tokens per byte measured on that text.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to not in FORMATS:
            raise ValueError(f"Expected a format ({', '.join(FORMATS)}), found '{self.to}'")
        if self.from_step is not None and not FORMATS[self.to].stage:
            staged = ", ".join(name for name, form in FORMATS.items() if form.stage)
            raise ValueError(
                f"Expected a trainer with stages ({staged}) for --from_step, found '{self.to}'"
            )
        draws = FORMATS[self.to].draws
        if self.samples is not None and self.samples not in draws:
            raise ValueError(
                f"Expected samples ({', '.join(draws)}) for {self.to}, found '{self.samples}'"
            )
        if self.tokens is None and self.drawn == "epochs":
            raise ValueError(f"Expected --tokens for {self.to}, which wants epochs, found none")
        if self.paths is not None and self.prefix is not None:
            raise ValueError("Expected --prefix or --paths, found both")
        if any(brace in (self.prefix or "").replace(DOMAIN, "") for brace in "{}"):
            raise ValueError(f"Expected no braces in prefix but {DOMAIN}, found '{self.prefix}'")

    @property
    def drawn(self) -> Samples:
        """What the trainer draws: `samples` if given, else its habit."""
        draws = FORMATS[self.to].draws
        return next((kind for kind in draws if kind == self.samples), draws[0])

    def places(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Returns where the trainer finds each domain: nowhere without prefix and paths.

        Raises:
            DataError: When the list of paths lacks a domain, or has several for a trainer that
                takes one, or see `path`.
        """
        if self.paths is None:
            return {name: (found,) if (found := self.path(name)) else () for name in names}
        listed = read_list(Path(self.paths))
        for name in names:
            count = len(listed[name].train) if name in listed else 0
            if not count or (count > 1 and not FORMATS[self.to].many_paths):
                wanted = "paths" if FORMATS[self.to].many_paths else "one path"
                raise DataError(
                    f"Expected {wanted} of '{name}' in {self.paths} for {self.to}, found {count}"
                )
        return {name: tuple(listed[name].train) for name in names}

    def path(self, name: str) -> str:
        """Returns where the trainer finds a domain; empty without a prefix.

        Raises:
            DataError: When the domain's name would lead out of the prefix, or out of the folder in
                which a trainer keeps what belongs to the name.
        """
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"Expected a domain whose name can be part of a path, found '{name}'")
        if self.prefix is None:
            return ""
        if DOMAIN in self.prefix:
            return self.prefix.replace(DOMAIN, name)
        return f"{self.prefix.rstrip('/')}/{name}"


def _yaml(content: dict[str, Any], samples: Samples) -> str:
    import yaml

    # YAML writes this line break as it stands, and reads it as a space; escaped it stays.
    escaped = "\x85" in _json(content)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=not escaped, width=1000)
    return f"# bydore export: the weights are {SAID[UNIT_OF[samples]]}.\n{text}"


def with_meaning(text: str, form: Format) -> str:
    """Returns a file with a comment on what its numbers mean to the trainer, below its first line,
    if it is of a kind that has comments."""
    first, end, rest = text.partition("\n")
    if not (first.startswith("# bydore export") or first.startswith('"""')):
        return text
    gap = "\n" if first.startswith('"""') else ""
    return f"{first}{end}{gap}# Number: {form.number}. {form.means}\n{rest}"


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _blend(shares: Sequence[Share]) -> list[str]:
    """Weights and prefixes in turn; an odd list would be read as prefixes without weights."""
    return [text for share in shares for text in (f"{share.weight:.12f}".rstrip("0"), share.path)]


def _for_datasets(shares: Sequence[Share], samples: Samples) -> str:
    """Hugging Face `datasets`: the arguments of `interleave_datasets`."""
    weights = [share.weight for share in shares]
    content = {
        "weights_are": SAID[UNIT_OF[samples]],
        "names": [s.name for s in shares],
        "paths": [s.path if len(s.paths) == 1 else [*s.paths] for s in shares if s.paths] or None,
        "interleave_datasets": {
            "probabilities": weights,
            "seed": 0,
            "stopping_strategy": "all_exhausted",
        },
    }
    return _json(content)


def _for_streaming(shares: Sequence[Share], samples: Samples) -> str:
    """MosaicML streaming: `streams` by name, for llm-foundry's YAML or `Stream(**stream)`."""
    kind = {share.name: "remote" if "://" in share.path else "local" for share in shares}
    streams = {s.name: {kind[s.name]: s.path, "proportion": s.weight} for s in shares}
    return _yaml({"streams": streams}, samples)


def _for_megatron(shares: Sequence[Share], samples: Samples) -> str:
    """Megatron-LM: the file of `--data-args-path`, which it splits at white space."""
    for share in shares:
        if share.path.split() != [share.path]:
            raise DataError(f"Expected a prefix without white space, found '{share.path}'")
    blend = _blend(shares)
    return "".join(f"{w} {p}\n" for w, p in zip(blend[::2], blend[1::2], strict=True))


def _for_nemo(shares: Sequence[Share], samples: Samples) -> str:
    """NeMo: `paths` of `PreTrainingDataModule`, a JSON list of strings that is YAML as well."""
    return _json(_blend(shares))


def _for_nanotron(shares: Sequence[Share], samples: Samples) -> str:
    """nanotron: the section `dataset` of a data stage, a Nanoset."""
    folders, weights = [s.path for s in shares], [s.weight for s in shares]
    return _yaml({"dataset_folder": folders, "dataset_weights": weights}, samples)


def as_stage(to: str, text: str, step: int) -> str:
    """Returns a file of weights as a stage that begins at a step of the trainer: an entry for
    levanter's list `train_weights` or nanotron's `data_stages`; others take one file a stage."""
    import yaml

    if to not in ("levanter", "nanotron"):
        return text
    content = yaml.safe_load(text)
    if to == "levanter":
        content["train_weights"] = [[step, content["train_weights"]]]
    else:
        stage = {"name": f"from step {step}", "start_training_step": step}
        content = {"data_stages": [{**stage, "data": {"dataset": content}}]}
    note = text.partition("\n")[0] + f" The stage from step {step} on: append it to those before."
    return note + "\n" + yaml.safe_dump(content, sort_keys=False, width=1000)


def _for_olmo_core(shares: Sequence[Share], samples: Samples) -> str:
    """OLMo-core: a `SourceMixtureList`, for `SourceMixtureList.from_yaml`."""

    def files(path: str) -> str:
        return path if path.endswith(".npy") or "*" in path else f"{path}/*.npy"

    sources: list[dict[str, Any]] = [
        {"source_name": s.name, "target_ratio": s.weight, "paths": [*map(files, s.paths)]}
        for s in shares
    ]
    for share, source in zip(shares, sources, strict=True):
        if (share.epochs or 0) > 1:  # it refuses to repeat text else
            source["max_repetition_ratio"] = float(math.ceil(share.epochs or 1))
    return _yaml({"sources": sources}, samples)


def levanter_block(weights: Sequence[float]) -> int:
    """Returns the smallest block, in sequences, of which no domain loses more than a tenth of its
    share by rounding down; the largest where there is none."""

    def fits(block: int) -> bool:
        return all(int(weight * block) >= 0.9 * weight * block for weight in weights)

    return next((size for size in BLOCKS if fits(size)), BLOCKS[-1])


def _for_levanter(shares: Sequence[Share], samples: Samples) -> str:
    """levanter: `train_weights` for the section `data`, by the names in its `configs`."""
    content: dict[str, Any] = {"train_weights": {share.name: share.weight for share in shares}}
    block = levanter_block([share.weight for share in shares])
    if block > BLOCKS[0]:
        content["mixture_block_size"] = block
    return _yaml(content, samples)


def _for_regmix(shares: Sequence[Share], samples: Samples) -> str:
    """TinyLlama as RegMix trains it: `--data_yaml_file`, weights by the prefixes of files."""
    train = dict(zip(regmix_keys(shares), (share.weight for share in shares), strict=True))
    return _yaml({"train": train, "valid": {}}, samples)


def regmix_keys(shares: Sequence[Share]) -> list[str]:
    """Returns the prefixes by which RegMix's trainer finds the files of domains.

    Raises:
        DataError: When one is the beginning of another's.
    """
    keys = [share.path or f"train_{share.name}" for share in shares]
    for key, longer in pairwise(sorted({*keys})):  # right behind a key stand those that it begins
        if longer.startswith(key):
            raise DataError(
                f"Expected a file prefix that matches one domain, found '{key}', which also "
                f"matches '{longer}'; an end that no name holds, such as --prefix "
                "'train_{domain}__', avoids this"
            )
    return keys


def _for_doremi(shares: Sequence[Share], samples: Samples) -> str:
    """DoReMi: `--domain_config_path`, weights for training and for evaluation by domain."""
    weights = {share.name: share.weight for share in sorted(shares, key=lambda s: s.name)}
    content: dict[str, Any] = {"train_domain_weights": weights, "eval_domain_weights": weights}
    if UNIT_OF[samples] != "tokens":  # else it is the authors' own file
        content["weights_are"] = SAID[UNIT_OF[samples]]
    return _json(content)


def _for_trl(shares: Sequence[Share], samples: Samples) -> str:
    """TRL: `datasets` of its scripts' YAML, with the fractions of a mixture."""
    return _yaml({"datasets": [{"path": s.path, "fraction": s.weight} for s in shares]}, samples)


def _for_axolotl(shares: Sequence[Share], samples: Samples) -> str:
    """axolotl: `datasets` of its YAML, with the parts of them that are kept."""
    return _yaml({"datasets": [{"path": s.path, "weight": s.weight} for s in shares]}, samples)


def _for_bridge(shares: Sequence[Share], samples: Samples) -> str:
    """Megatron Bridge: `source` and `source_weights` of `DirectHFSFTDatasetConfig`."""
    sources = [{"path_or_dataset": share.path} for share in shares]
    weights = [share.weight for share in shares]
    return _yaml({"source": sources, "source_weights": weights}, samples)


def _python(template: str) -> Callable[[Sequence[Share], Samples], str]:
    """A Python module: a template in which the unit of the weights and literals are filled in."""

    def literal(values: dict[str, Any]) -> str:
        return "{\n" + "".join(f"    {name!r}: {v!r},\n" for name, v in values.items()) + "}"

    def write(shares: Sequence[Share], samples: Samples) -> str:
        values = {
            "UNITS": SAID[UNIT_OF[samples]],
            "WEIGHTS_LITERAL": literal({s.name: s.weight for s in shares}),
            "PATHS_LITERAL": literal({s.name: s.path for s in shares}),
            "PACKS_FIRST": repr(samples == "sequences"),
        }
        # In one pass: a domain may be called as a place is.
        return re.sub("|".join(values), lambda place: values[place[0]], template)

    return write


WRITERS: dict[str, Callable[[Sequence[Share], Samples], str]] = {
    "datasets": _for_datasets,
    "streaming": _for_streaming,
    "megatron": _for_megatron,
    "nemo": _for_nemo,
    "nanotron": _for_nanotron,
    "olmo-core": _for_olmo_core,
    "levanter": _for_levanter,
    "regmix": _for_regmix,
    "doremi": _for_doremi,
    "trl": _for_trl,
    "axolotl": _for_axolotl,
    "megatron-bridge": _for_bridge,
}


def _read() -> dict[str, Format]:
    import yaml

    found = {}
    text = (Path(__file__).parent / "trainers.yaml").read_text(encoding="utf-8")
    for name, entry in yaml.safe_load(text).items():
        write, draws = _python(entry.pop("python", "")), tuple(entry.pop("draws"))
        found[name] = Format(write=WRITERS.get(name, write), draws=draws, **entry)
    return found


FORMATS: dict[str, Format] = _read()
