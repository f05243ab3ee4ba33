"""What a comparison found, in numbers and words: mean losses, wins, ties and losses."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from common import markdown

from bydore_pyro.mixture import total_variation

OWN = "bydore"  # labels that begin so are no rivals of ours
MATCH = "bydore_match"
LINEAR = "bydore_linear"
SAME = 0.01  # total variation below which two rivals' mixtures count once
BEYOND = 2.0  # standard errors of a difference that is a win or a loss
MARKS = {"tie": "= {}", "loss": "**{}**"}  # of a loss that our own does not undercut


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


def standings(targets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns how far methods are behind the best, and our own (`OWN`) beside each of them.

    Returns:
        Plain values: `behind` by method, the mean over its targets of its loss above the lowest of
        the target, nats per token; `verdicts` by method and target; `count` of our own method's
        wins, ties and losses beside its rivals. Rivals whose mixtures for a target are the same
        count once, and our own variants are none.
    """
    behind: dict[str, list[float]] = {}
    verdicts: dict[str, dict[str, dict[str, Any]]] = {}
    for name, result in targets.items():
        losses = losses_of(result)
        means = common_means(losses)
        for label, mean in means.items():
            behind.setdefault(label, []).append(mean - min(means.values()))
            found = verdict(losses[OWN], losses[label]) if OWN in losses else None
            if label != OWN and found is not None:
                verdicts.setdefault(label, {})[name] = found._asdict()
    count = Counter(
        verdicts[label][name]["word"]
        for name, result in targets.items()
        for label in rivals(result["methods"])
        if name in verdicts.get(label, {})
    )
    return {
        "behind": {label: statistics.mean(values) for label, values in behind.items()},
        "verdicts": verdicts,
        "count": {word: count[word] for word in ("win", "tie", "loss")},
    }


def losses_of(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """Returns the losses of the methods' fresh models by label; not of other mixtures'."""
    return {label: result["losses"][label] for label in result["methods"]}


def common_means(losses: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Returns the mean loss by label, over the first models that all labels have: seeds differ."""
    fewest = min(map(len, losses.values()))
    return {label: statistics.mean(values[:fewest]) for label, values in losses.items()}


def rivals(methods: Mapping[str, Any]) -> list[str]:
    """Returns the labels of other methods, of those with the same mixture only the first."""
    found: dict[str, Mapping[str, float]] = {}
    for label, method in methods.items():
        weights = method["weights"]
        if not label.startswith(OWN) and not any(
            total_variation(weights, other) < SAME for other in found.values()
        ):
            found[label] = weights
    return list(found)


def standings_table(targets: Mapping[str, Mapping[str, Any]], found: Mapping[str, Any]) -> str:
    """Returns losses and verdicts as Markdown; nothing of verdicts where there are none.

    Args:
        targets: The results by target.
        found: What `standings` returns of them.
    """
    behind, verdicts, count = found["behind"], found["verdicts"], found["count"]
    means = {name: common_means(losses_of(result)) for name, result in targets.items()}
    order = sorted(behind, key=behind.__getitem__)

    def mean_loss(label: str, name: str) -> str:
        if label not in means[name]:
            return ""
        word = verdicts.get(label, {}).get(name, {}).get("word", "")
        return MARKS.get(word, "{}").format(f"{means[name][label]:.3f}")

    rows = [
        [label, *(mean_loss(label, name) for name in targets), f"{behind[label]:.3f}"]
        for label in order
    ]
    header = ["method", *targets, "mean above the best"]
    text = f"## Mean losses\n\n{markdown(header, rows)}"
    if not verdicts:
        return text
    rows = []
    for label in (label for label in order if label in verdicts):
        of = verdicts[label]
        words = Counter(one["word"] for one in of.values())
        cells = [str(Verdict(**of[name])) if name in of else "" for name in targets]
        rows.append([label, *cells, f"{words['win']}, {words['tie']}, {words['loss']}"])
    return (
        f"{text}\n=: level with {OWN}. Bold: better.\n\n"
        f"## {OWN} beside each other method: {count['win']} wins, {count['tie']} ties, "
        f"{count['loss']} losses\n\nHow much lower its loss is, ± the standard error of the "
        f"difference (by seed); a win or a loss lies beyond {BEYOND:g} of them. "
        "Equal mixtures count once; our own variants do not count.\n\n"
        f"{markdown(['against', *targets, 'wins, ties, losses'], rows)}"
    )


def target_table(name: str, result: Mapping[str, Any]) -> str:
    """Returns what the methods found for a target, and what it was worth, as Markdown."""
    rows = []
    for label, losses in sorted(result["losses"].items(), key=lambda row: statistics.mean(row[1])):
        # One loss alone has no standard deviation.
        spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
        row = [label, f"{statistics.mean(losses):.3f}{spread}"]
        found = result["methods"].get(label)
        if found is None:
            rows.append([*row, leading(result["validation"]), "", "", "", ""])
            continue
        cost, shake = found["cost"], found["jitter_second_half"]
        row += [leading(found["weights"]), f"{cost['flops']:.2e}" if cost["flops"] else "0"]
        row += [f"{cost['tokens']:,}", f"{cost['seconds']:.0f}"]
        rows.append([*row, "" if shake is None else f"{shake:.4f}"])
    header = [
        "method",
        "validation loss",
        "largest weights",
        "FLOPs",
        "tokens",
        "seconds",
        "jitter",
    ]
    shares = ", ".join(f"{n} {s:g}" for n, s in result["validation"].items())
    return f"## {name}: validation text {shares}\n\n{markdown(header, rows)}"


def leading(weights: Mapping[str, float], count: int = 4) -> str:
    """Returns the largest weights as text."""
    total = sum(weights.values())
    largest = sorted(weights.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{name} {w / total:.2f}" for name, w in largest if w > 0)
