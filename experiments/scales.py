"""Does a small proxy's mixture serve a larger model? Mixtures of a comparison, on larger models."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from common import drawn_by, markdown, run_main
from compare import judge
from compare_mixtures import CompareOptions
from compare_tables import mean_and_spread, target_table
from compare_targets import posed, require_different, target_named, text_of_targets
from scipy.stats import rankdata

from bydore_pyro.baselines import FinishedRun
from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import begin_run, language_model, results_of
from bydore_pyro.utils import (
    DataError,
    one_line,
    option,
    options_of,
    require_fields,
    tell,
)

ABOUT = """Train fresh models that are larger than the proxy on the mixtures of a finished
comparison (experiments/compare.py), and correlate the ranks of the mixtures between the sizes. The
step size is proportional to 1 / width. `torchrun --nproc_per_node N` trains the models on N
processes."""

PROBABILITY = 0.94  # of the interval of a correlation
DRAWS = 4000


@dataclass(frozen=True, kw_only=True)
class ScalesConfig:
    """Whose mixtures are judged, by which models."""

    found: str = option(MISSING, "results.json of a finished comparison.")
    models: list[str] = option(
        ["models/proxy-tiny-x4", "models/proxy-tiny-x16"],
        "The larger models: folders with config.json, or hub names.",
    )
    targets: list[str] = option(
        ["planted", "no_docstrings", "no_readmes"], "Targets of the comparison."
    )
    methods: list[str] | None = option(
        None, "Whose mixtures, by the comparison's labels. Default: all."
    )
    target_seeds: int = option(2, "Number of models of each size per mixture.", least=1, most=100)
    data: str | None = option(None, "The comparison's text or token store, if it has moved.")
    cache: str | None = option(None, "Folder of cached token stores.")
    device: str | None = option(None, "'cpu', 'cuda' or 'auto'. Default: the comparison's device.")
    proxy_runs: str | None = option(
        None, "Folder of finished models. Default: proxies/ in the run's folder."
    )
    out: str | None = option(None, "Folder of the run. Default: runs/scales-TIME.")

    def __post_init__(self) -> None:
        require_fields(self)
        require_different(self.models)
        require_different(self.targets)
        if self.methods is not None:
            require_different(self.methods)
        for name in self.targets:
            target_named(name)


@dataclass(frozen=True, kw_only=True)
class ScalesOptions:
    """All options."""

    scales: ScalesConfig


def scales(options: ScalesOptions, resume: Path | None) -> None:
    """Trains, correlates; leaves a run folder, a table."""
    config = options.scales
    compared, found = comparison(config)
    base = judging(compared, found["steps"], config)
    folder = begin_run(base, "scales", resume)
    corpus = text_of_targets(base, config.targets)
    if resume is None:
        folder.write_config("scales", asdict(options), tell)
    small, targets = compared.run.proxy, found["targets"]
    sizes = {small: size_of(base, base, corpus, found["steps"])}
    losses = {name: {small: of_methods(targets[name], config.methods)} for name in config.targets}
    cost = Cost()
    for model in config.models:
        own = at_width(base, model)
        sizes[model] = size_of(own, base, corpus, own.search.steps)
        for name in config.targets:
            mixtures = {m: targets[name]["methods"][m]["weights"] for m in losses[name][small]}
            tell(f"{model}: {name}")
            posed_options, text = posed(own, corpus, target_named(name))
            runs = judge(posed_options, text, folder, name, mixtures, cost)
            shares = target_named(name).validation
            losses[name][model] = {m: [r.target_loss(shares) for r in of] for m, of in runs.items()}
            sizes[model] |= cost_of([run for of in runs.values() for run in of])
        results = {
            "sizes": sizes,
            "losses": losses,
            "ranks": ranks(losses, small),
            "compared": {"steps": found["steps"], "config": found["config"]},
        }
        results = results_of(results, options, base.run.seed, cost)
        folder.write_json("results.json", results)
    table = results_table(results)
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md and the runs behind them.")
    print(drawn_by("larger_models", folder))


def comparison(config: ScalesConfig) -> tuple[CompareOptions, dict[str, Any]]:
    """Reads the options and the results of a comparison.

    Raises:
        DataError: When it is none, or lacks a target, or is of one of the models.
    """
    found = finished_comparison(Path(config.found), config.targets)
    try:
        options = options_now(found["config"])
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"Expected the options of compare.py in {config.found}, found others: {one_line(error)}"
        ) from None
    for name in config.targets:
        for label in config.methods or ():
            if label not in (known := found["targets"][name]["methods"]):
                raise DataError(f"Expected one of {', '.join(known)} for {name}, found '{label}'")
    if options.run.proxy in config.models:
        raise DataError(f"Expected other models than the comparison's, found {options.run.proxy}")
    return options, found


def options_now(config: Mapping[str, Mapping[str, Any]]) -> CompareOptions:
    """Returns a comparison's options, without those that are gone since, which it tells.

    What it compared is no condition of its losses, and left out.
    """
    kept, gone = {}, []
    for part, kind in get_type_hints(CompareOptions).items():
        known = {each.name for each in fields(kind)}
        own = {} if part == "compare" else config.get(part, {})
        gone += [name for name in own if name not in known]
        kept[part] = {name: value for name, value in own.items() if name in known}
    if gone:
        tell(f"warning: the comparison had options that are gone: {', '.join(gone)}")
    return options_of(kept, CompareOptions)


def finished_comparison(path: Path, targets: Sequence[str]) -> dict[str, Any]:
    """Returns the content of a comparison's results.json, which has the targets.

    Raises:
        DataError: When the file is no results.json of `compare.py`, or lacks a target.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = [*found["targets"].keys()]
        if not isinstance(found["steps"], int):
            raise ValueError(f"steps {found['steps']!r:.60}")
        for name in set(targets) & set(known):
            target_table(name, found["targets"][name])  # needs whatever a table shows
            of_methods(found["targets"][name])
            if not found["targets"][name]["methods"]:
                raise ValueError(f"no method for {name}")
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else one_line(error)
        raise DataError(f"Expected results.json of compare.py, found {path}: {what}") from None
    for name in targets:
        if name not in known:
            raise DataError(
                f"Expected one of the targets of {path}, {', '.join(known)}, found '{name}'"
            )
    return dict(found)


def judging(compared: CompareOptions, steps: int, config: ScalesConfig) -> CompareOptions:
    """Returns the comparison's options with what is asked for here: seeds, length, where."""
    run = replace(
        compared.run,
        data=config.data or compared.run.data,
        cache=config.cache,
        device=config.device or compared.run.device,
        out=config.out,
    )
    return replace(
        compared,
        run=run,
        search=replace(compared.search, steps=steps),
        budget=replace(compared.budget, proxy_runs=config.proxy_runs),
        compare=replace(compared.compare, target_seeds=config.target_seeds),
    )


def at_width(base: CompareOptions, model: str) -> CompareOptions:
    """Returns the options with another model, whose step size falls as 1 / width."""
    own = replace(base, run=replace(base.run, proxy=model))
    wider = width(own) / width(base)
    rate = base.proxy.learning_rate / wider
    return replace(own, proxy=replace(base.proxy, learning_rate=rate))


def width(options: CompareOptions) -> int:
    """The width of the options' model, ``D``."""
    config: Any = language_model(options, 300, 0).config
    return config.hidden_size


def size_of(
    own: CompareOptions, base: CompareOptions, corpus: TokenStore, steps: int
) -> dict[str, Any]:
    """Returns how large a model is, and how long it is trained."""
    count, small = (
        sum(p.numel() for p in language_model(options, corpus.vocabulary, 0).parameters())
        for options in (own, base)
    )
    return {
        "parameters": count,
        "times": count / small,
        "tokens": steps * own.batch_tokens,
        "learning_rate": own.proxy.learning_rate,
    }


def cost_of(runs: Sequence[FinishedRun]) -> dict[str, float]:
    """Returns the mean cost of training one model."""
    spent = [run.cost["train"] for run in runs]
    return {key: statistics.mean(part[key] for part in spent) for key in ("flops", "seconds")}


def of_methods(
    result: Mapping[str, Any], methods: Sequence[str] | None = None
) -> dict[str, list[float]]:
    """Returns the losses of the methods' mixtures, all when None; of equal mixtures the first."""
    found: dict[str, list[float]] = {}
    seen: list[dict[str, float]] = []
    for label in methods or result["methods"]:
        method = result["methods"][label]
        weights = {domain: round(w, 6) for domain, w in method["weights"].items()}
        if weights not in seen:
            seen.append(weights)
            found[label] = result["losses"][label]
    return found


def ranks(
    losses: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]], small: str
) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns, by target and larger model, how the ranks agree with those of the small one."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, of in losses.items():
        means = {m: {k: statistics.mean(v) for k, v in own.items()} for m, own in of.items()}
        chosen = min(means[small], key=lambda label: means[small][label])
        found[name] = {}
        for model in list(of)[1:]:
            first, second = ([own[k] for k in means[small]] for own in (means[small], means[model]))
            value, low, high = rank_correlation(first, second)
            found[name][model] = {
                "spearman": value,
                "interval": [low, high],
                "mixtures": len(first),
                "pairs": math.comb(len(first), 2),
                "pairs_in_another_order": in_another_order(first, second),
                "best_small": chosen,
                "best_large": min(means[model], key=lambda label: means[model][label]),
                "behind": means[model][chosen] - min(second),
            }
    return found


def in_another_order(first: Sequence[float], second: Sequence[float]) -> int:
    """Returns the number of pairs whose order is not the same in both."""
    pairs = combinations(zip(first, second, strict=True), 2)
    return sum((a - c) * (b - d) < 0 for (a, b), (c, d) in pairs)


def rank_correlation(
    first: Sequence[float], second: Sequence[float], draws: int = DRAWS, seed: int = 0
) -> tuple[float | None, float | None, float | None]:
    """Returns Spearman's rank correlation and its interval, by a bootstrap over the pairs.

    Nothing can be told of fewer than three pairs or of constant values: None. Samples in which
    one side is constant are left out.
    """
    pairs = np.array([first, second], float)  # (2, n)
    count = pairs.shape[1]
    if count < 3:
        return None, None, None
    chosen = np.random.default_rng(seed).integers(count, size=(draws, count))
    chosen[0] = np.arange(count)  # the pairs themselves first
    sides = rankdata(pairs[:, chosen], axis=-1)  # (2, draws, n)
    sides -= sides.mean(-1, keepdims=True)
    products = np.einsum("adn,bdn->abd", sides, sides)
    spread = np.sqrt(products[0, 0] * products[1, 1])
    if not spread[0]:
        return None, None, None
    values = products[0, 1][spread > 0] / spread[spread > 0]
    low, high = np.quantile(values, [(1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2])
    return float(values[0]), float(low), float(high)


def results_table(results: Mapping[str, Any]) -> str:
    """Returns sizes, losses and correlations as Markdown."""
    sizes, losses = results["sizes"], results["losses"]
    rows = []
    for model, s in sizes.items():
        spent = [f"{s[key]:.2g}" if key in s else "" for key in ("flops", "seconds")]
        times, rate = f"{s['times']:.1f}", f"{s['learning_rate']:.2g}"
        rows.append([model, f"{s['parameters']:,}", times, f"{s['tokens']:,}", rate, *spent])
    header = ["model", "parameters", "times", "tokens", "step size", "FLOPs", "seconds"]
    text = markdown(header, rows)
    for name, of in losses.items():
        small = next(iter(of.values()))
        order = sorted(small, key=lambda label: statistics.mean(small[label]))
        rows = [[label, *(mean_and_spread(own[label]) for own in of.values())] for label in order]
        text += f"\n## {name}\n\n{markdown(['mixture of', *of], rows)}"
    rows = [
        [name, model, correlation(r), str(r["mixtures"]),
         f"{r['pairs_in_another_order']} of {r['pairs']}", r["best_small"], r["best_large"],
         f"{r['behind']:.3f}"]
        for name, of in results["ranks"].items() for model, r in of.items()
    ]  # fmt: skip
    header = ["target", "model", f"Spearman, {PROBABILITY:.0%} interval", "mixtures",
              "pairs in another order", "best small",
              "best here", "best small is behind by"]  # fmt: skip
    return f"{text}\n## Ranks beside those of the small model\n\n{markdown(header, rows)}"


def correlation(rank: Mapping[str, Any]) -> str:
    """Returns a correlation with its interval as text."""
    if rank["spearman"] is None:
        return "too few"
    low, high = rank["interval"]
    return f"{rank['spearman']:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    run_main(scales, "scales", ABOUT, ScalesOptions, resumable=True, several=True)
