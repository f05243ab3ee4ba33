"""What a comparison found, in numbers and words: mean losses, wins, ties and losses."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from common import markdown
from scipy.special import stdtr

from bydore_pyro.mixture import total_variation

OWN = "bydore"  # labels that begin so are no rivals of ours
MATCH = "bydore_match"
LINEAR = "bydore_linear"
SAME = 0.01  # total variation below which two rivals' mixtures count once
LEVEL = 0.05  # a win or a loss is less likely than so by chance
ROUNDING = 1e-12  # nats: losses of equal mixtures
MARKS = {"tie": "= {}", "loss": "**{}**"}  # of a loss that our own does not undercut


class Verdict(NamedTuple):
    """How one mixture does beside another.

    Attributes:
        difference: How much lower the loss of the first is, nats per token.
        standard_error: Of the difference.
        p: Of Student's test that both are equal; by `standings`, with Holm's correction.
    """

    difference: float
    standard_error: float
    p: float

    @property
    def word(self) -> str:
        """``"win"``, ``"tie"`` or ``"loss"`` of the first."""
        return "tie" if self.p >= LEVEL else "win" if self.difference > 0 else "loss"


def verdicts(losses: Mapping[str, Sequence[float]], own: str = OWN) -> dict[str, Verdict]:
    """Compares the losses of fresh models on mixtures with those on one of them.

    Losses are of the same seeds in the same order: a randomised block design, whose noise is what
    mixture and seed leave of all losses. Of two mixtures it is the paired test.

    Args:
        losses: Nats per token, of each seed, by mixture; seeds that one lacks are left out.
        own: The mixture that the others are compared with.

    Returns:
        By mixture; nothing where one model alone tells no spread.
    """
    seeds = min(map(len, losses.values()))
    table = np.array([values[:seeds] for values in losses.values()])
    if min(table.shape) < 2:
        return {}
    means = table.mean(1)
    different = np.unique(table, axis=0)  # equal mixtures tell their noise once
    left = different - different.mean(1, keepdims=True) - different.mean(0) + different.mean()
    freedom = max(1, len(different) - 1) * (seeds - 1)
    error = math.sqrt(2 * float(np.square(left).sum()) / freedom / seeds)
    apart = means - means[[*losses].index(own)]
    found = {}
    for label, difference in zip(losses, apart.tolist(), strict=True):
        if label != own:
            p = float(2 * stdtr(freedom, -abs(difference) / max(error, ROUNDING)))
            found[label] = Verdict(difference, error, p)
    return found


def holm(p: Sequence[float]) -> list[float]:
    """Returns probabilities with Holm's correction for as many tests."""
    order, rising = np.argsort(p), np.sort(p) * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(rising), 1)
    return adjusted.tolist()


def standings(targets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns how far methods are behind the best, and our own (`OWN`) beside each of them.

    Returns:
        Plain values: `behind` by method, the mean over its targets of its loss above the lowest of
        the target, nats per token; `verdicts` by method and target; `count` of our own method's
        wins, ties and losses beside its rivals. Rivals whose mixtures for a target are the same
        count once, and our own variants are none. A win or a loss has ``p < 0.05`` by Holm's
        correction over all that count.
    """
    behind: dict[str, list[float]] = {}
    found: dict[tuple[str, str], Verdict] = {}
    counted: list[tuple[str, str]] = []
    for name, result in targets.items():
        losses = losses_of(result)
        means = common_means(losses)
        for label, mean in means.items():
            behind.setdefault(label, []).append(mean - min(means.values()))
        of = verdicts(losses) if OWN in losses else {}
        found |= {(label, name): one for label, one in of.items()}
        counted += [(label, name) for label in rivals(result["methods"]) if label in of]
    for key, p in zip(counted, holm([found[key].p for key in counted]), strict=True):
        found[key] = found[key]._replace(p=p)
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for (label, name), one in found.items():
        told.setdefault(label, {})[name] = {**one._asdict(), "word": one.word}
    count = Counter(found[key].word for key in counted)
    return {
        "behind": {label: statistics.mean(values) for label, values in behind.items()},
        "verdicts": told,
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
    behind, beside, count = found["behind"], found["verdicts"], found["count"]
    means = {name: common_means(losses_of(result)) for name, result in targets.items()}
    order = sorted(behind, key=behind.__getitem__)

    def told(one: Mapping[str, Any]) -> str:
        return f"{one['word']} {one['difference']:+.3f} ± {one['standard_error']:.3f}"

    def mean_loss(label: str, name: str) -> str:
        if label not in means[name]:
            return ""
        word = beside.get(label, {}).get(name, {}).get("word", "")
        return MARKS.get(word, "{}").format(f"{means[name][label]:.3f}")

    rows = [
        [label, *(mean_loss(label, name) for name in targets), f"{behind[label]:.3f}"]
        for label in order
    ]
    header = ["method", *targets, "mean above the best"]
    text = f"## Mean losses\n\n{markdown(header, rows)}"
    if not beside:
        return text
    rows = []
    for label in (label for label in order if label in beside):
        of = beside[label]
        words = Counter(one["word"] for one in of.values())
        cells = [told(of[name]) if name in of else "" for name in targets]
        rows.append([label, *cells, f"{words['win']}, {words['tie']}, {words['loss']}"])
    return (
        f"{text}\n=: level with {OWN}. Bold: better.\n\n"
        f"## {OWN} beside each other method: {count['win']} wins, {count['tie']} ties, "
        f"{count['loss']} losses\n\nHow much lower its loss is, ± the standard error of the "
        "difference of two mixtures on a target. A win or a loss has p < 0.05 (Student's test of "
        "randomised blocks, Holm's correction over all that count). Equal mixtures count once; our "
        "own variants do not count.\n\n"
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
    shares = ", ".join(f"{n} {s:.3g}" for n, s in result["validation"].items())
    return f"## {name}: validation text {shares}\n\n{markdown(header, rows)}"


def leading(weights: Mapping[str, float], count: int = 4) -> str:
    """Returns the largest weights as text."""
    total = sum(weights.values())
    largest = sorted(weights.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{name} {w / total:.2f}" for name, w in largest if w > 0)
