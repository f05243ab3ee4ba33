"""``bydore ask``: questions to a finished search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.runs import AskConfig, plain, trial_record
from bydore_pyro.utils import (
    Checked,
    listed,
    one_line_errors,
    option,
    parse_options,
    with_subject,
)

if TYPE_CHECKING:
    from torch import Tensor

    from bydore_pyro.answer import Answer
    from bydore_pyro.data import Domains
    from bydore_pyro.mixture import Mixture
    from bydore_pyro.runs import Asked
    from bydore_pyro.utils import RunFolder

__all__ = ["COMMON", "AnswerConfig", "AskOptions", "ask_command"]

# What `--help` lists.
COMMON = (
    *("validation", "each", "drop", "add", "mixture", "target_tokens", "trials"),
    "out",
)


@dataclass(frozen=True, kw_only=True)
class AnswerConfig(Checked):
    """Where the answer goes."""

    out: str | None = option(None, "Folder of the answer. Default: runs/ask-<time>.")


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """All options of `bydore ask`."""

    ask: AskConfig
    answer: AnswerConfig


@one_line_errors("bydore ask")
def ask_command(arguments: Sequence[str]) -> None:
    """Answers other questions from what a search has measured. These are other targets, other
    domains, or how good a mixture is. RUN is the folder of a search by matching. Only the gradients
    of the targets, and of domains that are new, are computed."""
    run, given = with_subject(arguments, "RUN and a question")
    about, name = ask_command.__doc__ or "", "bydore ask"
    options = parse_options(given, name, about, AskOptions, common=COMMON, called=f"{name} RUN")
    _ask(Path(run), options)


def _ask(run: Path, options: AskOptions) -> None:
    import dataclasses
    import time

    from bydore_pyro.answer import compromise
    from bydore_pyro.data import gathered
    from bydore_pyro.mixture import mixture_from
    from bydore_pyro.runs import ask
    from bydore_pyro.utils import RunFolder

    given = None if options.ask.mixture is None else mixture_from(options.ask.mixture)
    out = options.answer.out or f"runs/ask-{time.strftime('%Y%m%d-%H%M%S')}"
    folder = RunFolder(Path(out))
    asked = ask(run, options.ask, folder.path)
    judged, domains = None, asked.domains
    if given is not None:
        first = next(iter(asked.targets.values()))
        known = {*domains.names, *first.mixture.names}
        given.check(known, domains.corpus.tokenizer_sha256, str(options.ask.mixture))
        weights = gathered(given.as_dict(), domains.pools)
        judged = [weights.get(name, 0.0) for name in domains.names]
    folder.write_config("ask", {**dataclasses.asdict(options), "run": {"of": str(run)}})
    answers = list(asked.targets.values())
    shared = compromise(answers) if len(answers) > 1 else None
    _write(folder, asked, shared, judged)


def _write(
    folder: RunFolder,
    asked: Asked,
    shared: Tensor | None,
    judged: Sequence[float] | None,
) -> None:
    """Writes the answers and prints them."""
    from bydore_pyro.answer import inference_data, shortfall
    from bydore_pyro.mixture import Mixture

    domains, corpus = asked.domains, asked.domains.corpus
    mixtures: dict[str, Mixture] = {}
    content: dict[str, Any] = {"measured_anew": list(asked.anew), "targets": {}}
    for name, one in asked.targets.items():
        mixtures[name] = one.mixture
        content["targets"][name] = _of_target(one, domains, judged)
    first = next(iter(asked.targets.values()))
    mixture = first.mixture
    if shared is not None:
        mixture = Mixture(
            names=domains.names,
            weights=tuple(shared.tolist()),
            tokenizer=corpus.tokenizer_sha256,
            data_sha256=corpus.sha256,
        ).unpooled(domains.pools)
        mixtures["for the mean"] = mixture
        content["compromise"] = {
            "weights": mixture.as_dict(),
            "leaves": {name: shortfall(one, shared)[0] for name, one in asked.targets.items()},
        }
    if shared is None:
        folder.write_posterior("posterior.nc", inference_data(first))
    folder.write_json("answers.json", content)
    folder.write_text("mixture.json", mixture.to_json() + "\n")
    if asked.anew:
        print(f"Measured anew, because the search did not know their text: {listed(asked.anew)}")
    print(_as_text(mixtures, content))
    print(f"In {folder.path}: answers.json, mixture.json{', posterior.nc' * (shared is None)}.")


def _of_target(one: Answer, domains: Domains, judged: Sequence[float] | None) -> dict[str, Any]:
    """Returns a target's entry in `answers.json`."""
    import torch

    from bydore_pyro.answer import shortfall

    names = one.mixture.names
    draws = dict(zip(domains.names, one.draws.T.numpy(), strict=True))
    for pool, shares in domains.pools.items():
        draws |= {name: share * draws[pool] for name, share in shares.items()}
    low, high = zip(*(one.mixture.hdi or ()), strict=True)
    content: dict[str, Any] = {
        "weights": one.mixture.as_dict(),
        "low": dict(zip(names, low, strict=True)),
        "high": dict(zip(names, high, strict=True)),
        "next_to_nothing": {name: float((draws[name] < 0.01).mean()) for name in names},
    }
    found, drawn = one.evidence
    content |= {"unexplained": found.unexplained, "settled": drawn.settled}
    if one.tried is not None:
        content["trials"] = plain(trial_record(one.tried))
    if judged is not None:
        lost = shortfall(one, torch.tensor(judged))
        content["mixture_leaves"] = dict(zip(("median", "low", "high"), lost, strict=True))
    return content


def _as_text(mixtures: dict[str, Mixture], content: dict[str, Any]) -> str:
    """Returns the weights as a table, the largest first, and what they leave unexplained."""
    import pandas

    from bydore_pyro.mixture import interval_of, shown_rows

    names, found = next(iter(mixtures.values())).names, list(mixtures.values())
    rows = shown_rows(names, [max(w) for w in zip(*(one.weights for one in found), strict=True)])
    columns: dict[str, list[Any]] = {
        name: [sum(one.weights[k] for k in row.places) for row in rows]
        for name, one in mixtures.items()
    }
    if len(found) == 1:
        (of,) = content["targets"].values()
        columns = {"weight": next(iter(columns.values()))}
        ends = [interval_of(found[0], row) for row in rows]
        columns["94 % interval"] = [
            "" if one is None else f"{one[0]:.3f} to {one[1]:.3f}" for one in ends
        ]
        columns["below 0.01"] = [
            f"{of['next_to_nothing'][row.name]:.0%}" if row.kind == "domain" else "" for row in rows
        ]
    frame = pandas.DataFrame(columns)
    width = max(len(row.label) for row in rows)
    frame.index = pandas.Index([f"{row.label:<{width}}" for row in rows])
    lines = [frame.to_string(float_format="{:.3f}".format)]
    for name, of in content["targets"].items():
        lines.append(f"{name}: no mixture explains {of['unexplained']:.0%} of the target")
        if lost := of.get("mixture_leaves"):
            lines.append(
                f"{name}: the given mixture loses {lost['median']:.0%} of the rest "
                f"({lost['low']:.0%} to {lost['high']:.0%})"
            )
    if "compromise" in content:
        shares = ", ".join(f"{n} {lost:.0%}" for n, lost in content["compromise"]["leaves"].items())
        lines.append(f"The compromise loses of what each target's own mixture explains: {shares}")
    return "\n".join(lines)
