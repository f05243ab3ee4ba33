"""Run folders as searches, cases and fits leave them, written without any of them; their names and
figures are the test's choice."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from pydantic import TypeAdapter

from bydore_pyro.answer.outlook import Outlook
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import RunRecord
from bydore_pyro.setup.record import Metrics

NAMES = ("code", "law", "prose", "web")
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '<img src=x onerror="window.hacked=1">',
    "'\"><svg onload=window.hacked=1>",
    "%{x} $x^2$ <b>bold</b> &amp; {{ 7 * 7 }}",
    "\u202eturned\u2028a\nline\x00",
    "long " * 40,
    "w" * 120,
    "a" * 60 + "é漢🙂",
)
HASHES = {"tokenizer": "t" * 64, "data_sha256": "d" * 64}


def weights_of(count: int) -> np.ndarray:
    weights = 0.6 ** np.arange(count)
    return weights / weights.sum()


def mixture_with_intervals(names: Sequence[str] = NAMES) -> Mixture:
    """A mixture whose first domain is above an equal share and whose last is below it."""
    weights = weights_of(len(names))
    return Mixture(
        names=tuple(names),
        weights=tuple(weights.tolist()),
        standard_deviation=tuple((weights / 4).tolist()),
        hdi=tuple((float(w) / 1.5, min(float(w) * 1.5, 1.0)) for w in weights),
        **HASHES,
    )


def record_of(
    mixture: Mixture | None = None, *, metrics: dict[str, Any] | None = None, **fields: Any
) -> RunRecord:
    """A run of these metrics, without a folder; the mixture has intervals if not given."""
    return RunRecord(
        path=Path("run"),
        label="run",
        mixture=mixture or mixture_with_intervals(),
        metrics=TypeAdapter(Metrics).validate_python(metrics_of() if metrics is None else metrics),
        **fields,
    )


def config_of(method: str = "search", **run: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": method,
        "run": {
            "data": "text",
            "proxy": "models/proxy-tiny",
            "sequence_length": 32,
            "seed": 0,
            **run,
        },
        "question": {"validation": ["law"], "max_epochs": None, "target_tokens": None},
        "search": {"steps": 60, "batch_sequences": 8},
        "linear": {"strategy": "intra_weighting"},
    }
    if method != "search":
        content |= {"name": "fit", "fit": {"method": method}, "budget": {"budget": 8.0}}
    return content


def metrics_of(names: Sequence[str] = NAMES, **changed: Any) -> dict[str, Any]:
    """What a search cost and reached."""
    return {
        "seed": 0,
        "steps": 60,
        "search": {
            "tokens": 40_000,
            "flops": 3e9,
            "seconds": 6.0,
            "parts": {
                "train": {"tokens": 15_360, "flops": 1e9, "seconds": 4.0},
                "hypergradient": {"tokens": 24_640, "flops": 2e9, "seconds": 1.5},
                "guide": {"tokens": 0, "flops": 0.0, "seconds": 0.5},
            },
        },
        "guide_fit": {"khat": 4.5, "effective_draws": 3.0, "draws": 1000},
        "run_tokens": 15_360,
        "run_epochs": dict.fromkeys(names, 0.5),
        "peak_memory_megabytes": 600,
        "device": "cpu",
        "threads": 1,
        **changed,
    }


def outlook_of(
    targets: Sequence[str] = ("law", "web"),
    names: Sequence[str] = NAMES,
    better: Sequence[float] = (0.97, 0.4),
    **changed: Any,
) -> dict[str, Any]:
    """The losses to expect of an answer, of uniform and of natural weights: 0.2 and 0.1 nats higher
    on every text, each text 0.5 above the one before."""
    several = ["all targets"] if len(targets) > 1 else []
    texts = [*targets, *(f"domain {name}" for name in names), *several]
    losses = {text: 2.0 + 0.5 * place for place, text in enumerate(texts)}

    def row(above: float) -> dict[str, dict[str, float]]:
        ends = {"low": above - 0.25, "high": above + 0.25, "loss": above}
        return {text: {k: loss + v for k, v in ends.items()} for text, loss in losses.items()}

    apart = {}
    for name, above, sure in zip(("uniform", "natural"), (0.2, 0.1), better, strict=True):
        one = {"loss": -above, "low": -above - 0.3, "high": 0.3 - above, "better": sure}
        apart[name] = dict.fromkeys(texts, one)
    longer = {
        name: {text: {"times": 1 + above, "low": 0.9, "high": 4.0} for text in (*targets, *several)}
        for name, above in (("uniform", 0.2), ("natural", -0.2))
    }
    curve = {
        "at": (0.5, 1.0, 2.0),
        "loss": (4.0, 3.0, 2.5),
        "low": (3.9, 2.9, 2.4),
        "high": (4.1, 3.1, 2.6),
        "runs": (0.5, 1.0),
        "losses": (4.05, 2.95),
    }
    return {
        "tokens": 15_360,
        "asked": 15_360,
        "importance": {name: 1 / len(targets) for name in targets},
        "expected": {"answer": row(0.0), "uniform": row(0.2), "natural": row(0.1)},
        "differences": apart,
        "saved": longer,
        "freedom": dict.fromkeys(names, (0.1, 0.3)),
        "frontier": {t: (2.0, 2.2, 2.5) for t in targets if len(targets) in (2, 3)},
        "curves": dict.fromkeys(names, curve),
        **changed,
    }


def planted(**given: Any) -> Outlook:
    """The outlook of `outlook_of`."""
    return TypeAdapter(Outlook).validate_python(outlook_of(**given))


def write_trajectory(path: Path, names: Sequence[str], means: np.ndarray) -> None:
    coordinates = {"step": np.arange(len(means)), "domain": list(names)}
    data = xarray.Dataset({"mean": (("step", "domain"), means)}, coords=coordinates)
    data.to_netcdf(path, engine="h5netcdf")


def write_search(
    folder: Path,
    names: Sequence[str] = NAMES,
    *,
    verified: bool = False,
    steps_drawn: int = 60,
    **changed: Any,
) -> Path:
    """Writes a search's folder, of a case with `verified`; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    mixture = mixture_with_intervals(names)
    if verified:
        losses = {"learned": 3.25, "uniform": 3.5, f"only {names[0]}": 3.4}
        changed["validation_loss_nats_per_token"] = losses
        part = {"tokens": 9_000, "flops": 1e9, "seconds": 2.0}
        changed["verification"] = {**part, "parts": {"verify_train": part}}
    write_json(folder / "config.json", config_of())
    write_json(folder / "metrics.json", metrics_of(names, **changed))
    (folder / "mixture.json").write_text(mixture.to_json())
    there = np.linspace(0, 1, steps_drawn)[:, None] ** 0.2  # from uniform weights to its own
    means = (1 - there) / len(names) + there * weights_of(len(names))
    write_trajectory(folder / "trajectory.nc", names, means)
    return folder


def matching_of(names: Sequence[str] = NAMES, **changed: Any) -> dict[str, Any]:
    """What the rounds of a search by gradient matching found, after 10, 20 and 30 steps."""
    last = weights_of(len(names))
    rounds = []
    for number in (1, 2, 3):
        # Alone they go by halves to the mixture, together faster.
        alone = last + (last[::-1] - last) / 2 ** (number + 1)
        weights = last + (last[::-1] - last) * (3 - number) / 10
        rounds.append(
            {
                "step": 10 * number,
                "sequences": 1000 + number,
                "validation_loss": 6.0 - number,
                "unexplained": 0.04,
                "scale": 1.06,
                "weights": dict(zip(names, weights.tolist(), strict=True)),
                "alone": dict(zip(names, alone.tolist(), strict=True)),
            }
        )
    check = {
        "slopes": dict.fromkeys(names, -0.001),
        "errors": dict.fromkeys(names, 0.001),
        "failing": [],
        "sequences": dict.fromkeys(names, 32),
    }
    return {
        "unexplained": 0.04,
        "scale": 1.06,
        "rounds": rounds,
        "draws": {"settled": True, "rhat": 1.01},
        "check": check,
        **changed,
    }


def write_matching(folder: Path, names: Sequence[str] = NAMES, **matching: Any) -> Path:
    """Writes the folder of a search by gradient matching; returns it."""
    fit = {"khat": 0.57, "effective_draws": 908.0, "draws": 8000}
    found = matching_of(names, **matching)
    write_search(folder, names, steps=30, guide_fit=fit, matching=found)
    config = config_of(evidence="matching")
    config["search"] |= {"rounds": 3}
    write_json(folder / "config.json", config)
    (folder / "trajectory.nc").unlink()
    return folder


def write_fit(folder: Path, method: str = "regmix", names: Sequence[str] = NAMES) -> Path:
    """Writes the folder of another method's fit, without posterior and trajectory; returns it."""
    folder.mkdir(parents=True)
    weights = weights_of(len(names))[::-1]
    mixture = Mixture(names=tuple(names), weights=tuple(weights.tolist()), **HASHES)
    part = {"tokens": 60_000, "flops": 6e9, "seconds": 9.0}
    metrics = {"method": method, "seed": 0, "search": {**part, "parts": {"train": part}}}
    write_json(folder / "config.json", config_of(method))
    write_json(folder / "metrics.json", metrics)
    (folder / "mixture.json").write_text(mixture.to_json())
    return folder


def write_seeds(folder: Path, count: int = 2) -> list[Path]:
    """Writes searches with several seeds, of which every other one has moved a tenth of the weight
    from the first domain to the second; returns their folders."""
    runs = []
    for seed in range(count):
        run = write_search(folder / f"seed-{seed}", seed=seed)
        mixture = mixture_with_intervals()
        moved = np.array(mixture.weights) + seed % 2 * np.array([-0.1, 0.1, 0.0, 0.0])
        mixture = dataclasses.replace(mixture, weights=tuple(moved.tolist()))
        (run / "mixture.json").write_text(mixture.to_json())
        runs.append(run)
    return runs


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
