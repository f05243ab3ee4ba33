"""What a run folder holds, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bydore_pyro.mixture import Mixture
from bydore_pyro.report.lengths import advice, length_rows, lengths_in
from bydore_pyro.report.matching_words import (
    check_told,
    covered,
    inference_told,
    round_rows,
    rounds_in,
    rows_by_round,
    scale_told,
    width_told,
)
from bydore_pyro.report.regression_tables import columns, regression_parts
from bydore_pyro.report.run_record import RunRecord, as_number, named_numbers, read_run, unlearned
from bydore_pyro.utils import RunFolderError, visible

__all__ = ["agreement_table", "losses_table", "report_text", "rounds_text", "weights_table"]


def report_text(folder: Path) -> str:
    """Returns a run's weights, losses and cost, where its files lie and what to do next; of a
    search with several seeds how they agree.

    Raises:
        RunFolderError: When the folder holds no finished run.
    """
    record = read_run(folder)
    if record.metrics.get("stopped"):
        raise RunFolderError(
            f"Expected a finished run in {folder}, found one that stopped after "
            f"{record.metrics.get('steps')} steps: {record.metrics['stopped']}"
        )
    try:
        if record.mixture is None:
            return agreement_table(record)
        return _finished(folder, record.mixture, record.metrics)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        damage = [d for d in record.damaged if d.startswith("metrics.json")]
        reason = damage[0] if damage else f"{type(error).__name__}: {error}"
        raise RunFolderError(f"Expected a whole run in {folder}, found: {reason}") from None


def _finished(folder: Path, mixture: Mixture, metrics: Mapping[str, Any]) -> str:
    parts = [weights_table(mixture, metrics["run_epochs"])]
    if mixture.predicted_loss:
        parts.append(predictions_table(mixture.predicted_loss))
    parts += regression_parts(metrics.get("details") or {})
    parts += [f"\n{note}" for note in mixture.notes]
    by_matching, lengths = isinstance(metrics.get("matching"), dict), lengths_in(metrics)
    header, rows = length_rows(lengths)
    if rows:
        parts.append(columns(header, rows))
    if by_matching:
        parts.append(rounds_text(metrics))
    if "validation_loss_nats_per_token" in metrics:
        parts.append(losses_table(metrics["validation_loss_nats_per_token"]))
    spent, steps = metrics["search"], metrics.get("steps")
    about = [
        f"{steps} steps" if steps is not None else "",
        f"{spent['tokens']:,} tokens",
        f"{spent['flops']:.2e} FLOPs",
        f"{spent['seconds']:.0f} s",
    ]
    lines = [
        f"\n{metrics.get('method', 'search').capitalize()}: {', '.join(filter(None, about))}; "
        f"peak memory {metrics['peak_memory_megabytes'] / 1024:.1f} GB"
    ]
    if metrics.get("jitter_second_half") is not None and not by_matching:
        lines[-1] += f"; jitter in the second half {metrics['jitter_second_half']:.3f}"
    if "guide_fit" in metrics:
        fit = metrics["guide_fit"]
        khat = fit["khat"] if isinstance(fit["khat"], str) else f"{fit['khat']:.2f}"
        model = "the evidence of all rounds" if by_matching else "g frozen"
        line = (
            f"The last guide against its model with {model}: PSIS k-hat {khat} (below 0.7 is "
            f"good), {fit['effective_draws']:.0f} effective of {fit['draws']} draws"
        )
        if by_matching:
            line += (
                "; the draws are corrected to the posterior's"
                if fit.get("corrected")
                else "; the draws could not be corrected: intervals are not the posterior's"
            )
        lines.append(line)
    tokens, epochs = as_number(metrics.get("run_tokens")), named_numbers(metrics["run_epochs"])
    if told := advice(tokens, epochs, by_matching=by_matching, counted=bool(lengths)):
        lines.append(told)
    if warning := unlearned(metrics):
        lines.append(f"Warning: {warning}.")
    files = sorted(p.name for p in folder.iterdir() if p.is_file() and p.suffix != ".png")
    place = visible(str(folder))
    lines.append(f"\nIn {place}: {', '.join(map(visible, files))} and pictures.")
    if (folder / "trajectory.png").exists():
        lines.append(f"Next: look at {place}/trajectory.png")
    if (folder / "posterior.nc").exists():
        lines[-1] += f" and {place}/posterior.png, or in Python"
        lines.append(f"  import arviz as az; az.summary(az.from_netcdf('{place}/posterior.nc'))")
    return "\n".join([*parts, *lines])


def weights_table(mixture: Mixture, epochs: Mapping[str, float] | None = None) -> str:
    """Returns the weights with their intervals as text, largest first.

    Args:
        mixture: The weights; where they are capped, the free ones stand beside them.
        epochs: How many times a run on these weights reads each domain, where known.
    """
    missing = (float("nan"),) * len(mixture.names)
    deviation, free = mixture.standard_deviation or missing, mixture.free_weights or missing
    hdi = mixture.hdi or tuple(zip(missing, missing, strict=True))
    width, read = max(6, *(len(visible(n)) for n in mixture.names)), epochs or {}
    verdicts = mixture.verdicts()
    capped = mixture.free_weights is not None
    lines = [
        f"\n{'domain':<{width}}  weight  {'  free  ' if capped else ''}    sd  "
        f"{f'{mixture.hdi_probability:.0%} HDI':<14}  epochs  "
        f"than {'uniform' if mixture.prior is None else 'the prior'}"
    ]
    rows = zip(mixture.weights, mixture.names, free, deviation, hdi, strict=True)
    for weight, name, uncapped, sd, (low, high) in sorted(rows, reverse=True):
        lines.append(
            f"{visible(name):<{width}}  {weight:6.3f}  "
            f"{f'{uncapped:6.3f}  ' if capped else ''}{sd:6.3f}  [{low:.3f}, {high:.3f}]  "
            f"{read.get(name, math.nan):6.2f}  {verdicts.get(name, '')}"
        )
    return "\n".join(lines)


def rounds_text(metrics: Mapping[str, Any]) -> str:
    """Returns what the rounds of a search by gradient matching found as text."""
    rounds, matching = rounds_in(metrics), metrics["matching"]
    unexplained, check = as_number(matching.get("unexplained")), check_told(metrics)
    header, rows = rows_by_round(rounds)
    header = [title.removeprefix("rounds ").removeprefix("round ") for title in header]
    header[:2] = ["most likely, by rounds", "1"] if rows else []
    parts = [columns(header, rows)] if rows else []
    for place, step, sequences, loss, share, scale, inference in round_rows(rounds):
        parts.append(
            f"round {place}, after step {step}: {sequences} sequences, validation loss {loss}, "
            f"unexplained {share}, scale {scale}, inference {inference}"
        )
    told = [
        "" if unexplained is None else covered(unexplained),
        scale_told(as_number(matching.get("scale"))),
        inference_told(rounds) if rounds else "",
        "" if check is None else f"The mixture was checked. {check[2]}",
        width_told(metrics),
    ]
    return "\n".join([*parts, "", *filter(None, told)])


def predictions_table(predicted: Mapping[str, tuple[float, float | None]]) -> str:
    """Returns the losses that a regression predicts, in its runs' unit, as text."""
    lines = [f"\n{'a run on':<22}  predicted loss (with its standard deviation)"]
    for name, (mean, deviation) in predicted.items():
        label = {"weights": "these weights"}.get(name, name)
        lines.append(
            f"{label:<22}  {mean:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")
        )
    return "\n".join(lines)


def losses_table(losses: Mapping[str, float]) -> str:
    """Returns the verification's losses, nats per token, as text."""
    width = max(22, *(len(visible(label)) for label in losses))
    lines = [f"\n{'fresh model trained on':<{width}}  validation loss (nats per token)"]
    lines += [f"{visible(label):<{width}}  {loss:.4f}" for label, loss in losses.items()]
    return "\n".join(lines)


def agreement_table(record: RunRecord) -> str:
    """Returns what `bydore_pyro.analysis.seeds.agreement` found as text, and what it means."""
    width = max(6, *(len(visible(name)) for name in record.agreement))
    lines, spreads, coverages = [], [], []
    for name, row in record.agreement.items():
        columns = ("mean", "sd_over_seeds", "posterior_sd", "coverage")
        mean, spread, deviation, coverage = (float(row[column]) for column in columns)
        spreads.append(spread)
        coverages.append(coverage)
        note = "  overconfident" if row["overconfident"] == "True" else ""
        lines.append(
            f"{visible(name):<{width}}  {mean:6.3f}  {spread:13.4f}  {deviation:12.4f}  "
            f"{coverage:8.2f}{note}"
        )
    return "\n".join(
        (
            f"\n{'domain':<{width}}  weight  sd over seeds  posterior sd  coverage",
            *lines,
            f"\n{len(record.seeds)} seeds: the largest standard deviation of a weight over seeds "
            f"is {max(spreads):.3f}; an HDI holds what another seed found in "
            f"{sum(coverages) / len(coverages):.0%} of the cases.",
            f"\nIn {visible(str(record.path))}: agreement.csv, seed-*.",
        )
    )
