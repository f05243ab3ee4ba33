"""The one place that calls ArviZ, below 1.0: 1.x needs Python 3.12 and has other objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray
    from matplotlib.axes import Axes

__all__ = [
    "hdi",
    "import_arviz",
    "inference_data",
    "plot_forest",
    "smooth_log_weights",
    "summary",
]


def import_arviz() -> ModuleType:
    """Imports ArviZ without its announcement of its own refactoring.

    Raises:
        ImportError: When ArviZ is 1.0 or later, whose objects this package does not write.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
        import arviz

    if int(arviz.__version__.split(".")[0]) >= 1:
        raise ImportError(f"Expected arviz < 1, found {arviz.__version__}: pip install 'arviz<1'")
    return arviz


def inference_data(
    posterior: Mapping[str, np.ndarray],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[str]],
) -> arviz.InferenceData:
    """Returns draws ``(chain, draw, *dims)`` by variable as an InferenceData."""
    return import_arviz().from_dict(
        posterior=dict(posterior),
        dims={name: list(d) for name, d in dims.items()},
        coords={name: list(c) for name, c in coords.items()},
        attrs={"inference_library": "bydore_pyro"},
    )


def hdi(posterior: arviz.InferenceData, variable: str, probability: float) -> xarray.DataArray:
    """Returns the highest-density interval of a variable, lower and upper end in the last axis."""
    return import_arviz().hdi(posterior, var_names=[variable], hdi_prob=probability)[variable]


def summary(posterior: arviz.InferenceData, variable: str, probability: float) -> pandas.DataFrame:
    """Returns `arviz.summary` of a variable, unrounded."""
    with np.errstate(invalid="ignore"):  # a constant has no R-hat
        return import_arviz().summary(
            posterior, var_names=[variable], hdi_prob=probability, round_to="none"
        )


def smooth_log_weights(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns logs of Pareto-smoothed weights that sum to 1, and the tail's shape k-hat."""
    with np.errstate(over="ignore"):  # of a tail whose shape is in the hundreds
        smoothed, khat = import_arviz().psislw(log_weights)
    return smoothed, float(khat)


def plot_forest(
    posteriors: Mapping[str, arviz.InferenceData],
    variable: str,
    probability: float,
    *,
    coords: Mapping[str, Sequence[str]] | None = None,
    label: Callable[[Mapping[str, Any]], str] = lambda sel: ", ".join(map(str, sel.values())),
    **options: Any,
) -> Axes:
    """Draws median, quartiles and HDI of a variable, for one posterior or several by name.

    Args:
        posteriors: By the name that the rows show where there are several.
        variable: What is drawn.
        probability: Of the HDI.
        coords: Which rows, in which order; all when None.
        label: Text of a row for its coordinates.
        options: Passed on to `arviz.plot_forest`.
    """
    arviz = import_arviz()

    class Labeller(arviz.labels.BaseLabeller):  # type: ignore[name-defined]
        def make_label_flat(self, var_name, sel, isel):  # type: ignore[no-untyped-def]
            return label(sel)

        def make_label_vert(self, var_name, sel, isel):  # type: ignore[no-untyped-def]
            return label(sel)

    axes = arviz.plot_forest(
        list(posteriors.values()),
        model_names=list(posteriors) if len(posteriors) > 1 else None,
        var_names=[variable],
        coords=dict(coords or {}),
        combined=True,
        hdi_prob=probability,
        labeller=Labeller(),
        textsize=10,
        **options,
    )
    return axes[0]
