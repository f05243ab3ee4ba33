"""What a comparison found, in numbers and words: mean losses, wins, ties and losses."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from common import markdown

from bydore_pyro.mixture import average_score, benchmark_scores, total_variation

OWN = "bydore"
MATCH = "bydore_match"
LINEAR = "bydore_linear"
PAPER = {"single": "Pile-CC", "doremi": "DoReMi", "regmix": "RegMix", "autoscale": "AutoScale",
         "mde": "MDE", LINEAR: "ByDoRe"}  # fmt: skip
VARIANTS = ("bydore",)  # beginnings of labels that are no rivals of ours
SAME = 0.01  # total variation below which two rivals' mixtures count once
BEYOND = 2.0  # standard errors of a difference that is a win or a loss
MARKS = {"tie": "= {}", "loss": "**{}**"}  # of a loss that our own does not undercut
WORST = ", the worst"  # behind a target's name: judged by the worst of its single targets


class Verdict(NamedTuple):
    """How one mixture does beside another.

    Attributes:
        word: ``"win"``, ``"tie"`` or ``"loss"`` of the first.
        difference: How much lower the loss of the first is, nats per token.
        standard_error: Of the difference.
    """

    word: str
    difference: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.word} {self.difference:+.3f} ± {self.standard_error:.3f}"


def verdict(own: Sequence[float], other: Sequence[float]) -> Verdict | None:
    """Compares the losses of fresh models on two mixtures; None where one alone tells no spread.

    A win or a loss is a difference of the means beyond two standard errors. Losses are of the same
    seeds in the same order: their differences are what varies. Where one mixture has more models,
    those that the other has too are compared.

    Args:
        own: Losses on the first mixture, nats per token.
        other: On the second.
    """
    if min(len(own), len(other)) < 2:
        return None
    apart = [theirs - ours for ours, theirs in zip(own, other, strict=False)]
    difference = statistics.mean(apart)
    error = math.sqrt(statistics.variance(apart) / len(apart))
    word = "tie"
    if abs(difference) > BEYOND * error:
        word = "win" if difference > 0 else "loss"
    return Verdict(word, difference, error)


def losses_by_target(targets: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Returns the losses of every method's fresh models by target, and of the worst of several."""
    found = {}
    for name, result in targets.items():
        methods = list(result["methods"])
        found[name] = {label: result["losses"][label] for label in methods}
        singles = result.get("single_losses")
        if singles is not None:
            found[name + WORST] = {label: worst_of(singles[label]) for label in methods}
    return found


def worst_of(losses: Mapping[str, Sequence[float]]) -> list[float]:
    """Returns the largest of the single targets' losses, model by model."""
    return [max(row) for row in zip(*losses.values(), strict=True)]


def standings(targets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns how far methods are behind the best, and our own (`OWN`) beside each of them.

    Returns:
        Plain values: `behind` by method, the mean over its targets of its loss above the lowest of
        the target, nats per token; `verdicts` by method and target; `count` of our own method's
        wins, ties and losses beside its rivals. Rivals whose mixtures for a target are the same
        count once, and our own variants are none. `behind` and `count` leave out the worst of
        several.
    """
    losses, own = losses_by_target(targets), OWN
    behind: dict[str, list[float]] = {}
    verdicts: dict[str, dict[str, dict[str, Any]]] = {}
    for name, of in losses.items():
        means = common_means(of)
        for label, mean in means.items():
            if name in targets:
                behind.setdefault(label, []).append(mean - min(means.values()))
            found = verdict(of[own], of[label]) if own in of else None
            if label != own and found is not None:
                verdicts.setdefault(label, {})[name] = found._asdict()
    words = [
        verdicts[label][name]["word"]
        for name, result in targets.items()
        for label in rivals(result["methods"])
        if name in verdicts.get(label, {})
    ]
    return {
        "behind": {label: statistics.mean(values) for label, values in behind.items()},
        "verdicts": verdicts,
        "count": count_words(words),
    }


def common_means(losses: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Returns the mean loss by label, over the first models that all labels have: seeds differ."""
    fewest = min(map(len, losses.values()))
    return {label: statistics.mean(values[:fewest]) for label, values in losses.items()}


def rivals(methods: Mapping[str, Any]) -> list[str]:
    """Returns the labels of other methods, of those with the same mixture only the first.

    Args:
        methods: What they found by label; `weights` where they are known.
    """
    found: dict[str, Mapping[str, float]] = {}
    for label, method in methods.items():
        weights = (method or {}).get("weights", {})
        same = (total_variation(weights, other) < SAME for other in found.values() if other)
        if not label.startswith(VARIANTS) and not (weights and any(same)):
            found[label] = weights
    return list(found)


def count_words(words: Iterable[str]) -> dict[str, int]:
    """Returns the number of wins, ties and losses."""
    count = Counter(words)
    return {word: count[word] for word in ("win", "tie", "loss")}


def standings_table(targets: Mapping[str, Mapping[str, Any]], found: Mapping[str, Any]) -> str:
    """Returns losses and verdicts as Markdown; nothing of verdicts where there are none.

    Args:
        targets: The results by target.
        found: What `standings` returns of them.
    """
    losses, behind = losses_by_target(targets), found["behind"]
    verdicts, count, ours = found["verdicts"], found["count"], OWN
    order = sorted(behind, key=behind.__getitem__)

    def mean_loss(label: str, name: str) -> str:
        if label not in losses[name]:
            return ""
        word = verdicts.get(label, {}).get(name, {}).get("word", "")
        return MARKS.get(word, "{}").format(f"{common_means(losses[name])[label]:.3f}")

    rows = [
        [label, *(mean_loss(label, name) for name in losses), f"{behind[label]:.3f}"]
        for label in order
    ]
    header = ["method", *losses, "mean above the best"]
    text = f"## Mean losses\n\n{markdown(header, rows)}"
    if not verdicts:
        return text
    rows = []
    for label in (label for label in order if label in verdicts):
        of = verdicts[label]
        words = count_words(of[name]["word"] for name in of if name in targets)
        cells = [str(Verdict(**of[name])) if name in of else "" for name in losses]
        rows.append([label, *cells, f"{words['win']}, {words['tie']}, {words['loss']}"])
    return (
        f"{text}\n=: level with {ours}. Bold: better.\n\n"
        f"## {ours} beside each other method: {count['win']} wins, {count['tie']} ties, "
        f"{count['loss']} losses\n\nHow much lower its loss is, ± the standard error of the "
        f"difference (by seed); a win or a loss lies beyond {BEYOND:g} of them. "
        "Equal mixtures count once; our own variants and the worst of several targets do not "
        "count.\n\n"
        f"{markdown(['against', *losses, 'wins, ties, losses'], rows)}"
    )


def target_table(name: str, result: Mapping[str, Any]) -> str:
    """Returns what the methods found for a target, and what it was worth, as Markdown."""
    scores = {}
    if name in ("case1", "case2"):
        scores = {m: average_score(t) for m, t in benchmark_scores(int(name[-1])).items()}
    singles = result.get("single_losses", {})
    of_several = ["worst of them", "furthest behind"] if singles else []
    of_paper = ["paper: mean of 13 benchmarks"] if scores else []
    header = ["method", "validation loss", *of_several, "largest weights", "FLOPs", "tokens",
              "seconds", "jitter", *of_paper]  # fmt: skip
    rows = []
    order = sorted(result["losses"], key=lambda label: statistics.mean(result["losses"][label]))
    for label in order:
        cells = single_cells(label, singles) if singles else []
        found = result["methods"].get(label)
        if found is None:
            cells += [leading(result["validation"]), "", "", "", ""]
        else:
            cost, shake = found["cost"], found["jitter_second_half"]
            cells += [
                leading(found["weights"]),
                f"{cost['flops']:.2e}" if cost["flops"] else "0",
                f"{cost['tokens']:,}",
                f"{cost['seconds']:.0f}",
                "" if shake is None else f"{shake:.4f}",
            ]
        paper = scores.get(PAPER.get(label, ""))
        cells += ["" if paper is None else f"{paper:.2f}"] if scores else []
        rows.append([label, mean_and_spread(result["losses"][label]), *cells])
    shares = ", ".join(f"{n} {s:g}" for n, s in result["validation"].items())
    return f"## {name}: validation text {shares}\n\n{markdown(header, rows)}"


def single_cells(label: str, singles: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Returns the single target of the largest loss, and the one that is furthest behind the
    lowest loss that any mixture of the table reaches on it."""
    mean = {m: {n: statistics.mean(v) for n, v in own.items()} for m, own in singles.items()}
    least = {name: min(own[name] for own in mean.values()) for name in mean[label]}
    worst = max(mean[label], key=lambda name: mean[label][name])
    behind = {name: loss - least[name] for name, loss in mean[label].items()}
    last = max(behind, key=lambda name: behind[name])
    return [
        f"{worst} {mean_and_spread(singles[label][worst])}",
        f"{last} +{behind[last]:.3f}" if behind[last] > 0 else "none",
    ]


def mean_and_spread(losses: Sequence[float]) -> str:
    """Returns the mean ± the standard deviation, which one loss alone does not have."""
    spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.3f}{spread}"


def leading(weights: Mapping[str, float], count: int = 4) -> str:
    """Returns the largest weights as text."""
    total = sum(weights.values())
    largest = sorted(weights.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{name} {w / total:.2f}" for name, w in largest if w > 0)
