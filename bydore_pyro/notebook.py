"""Searches, questions and fits in a notebook: the commands as functions of the same options.

::

    run = run_search(data="STORE", validation={"docstrings": 0.7, "code": 0.3})
    answer = run.ask({"FILE.jsonl": 1.0}, guard=["code"], at_least={"code": 0.1})
    answer.weights  # a pandas Series
    answer.forecast({"code": 0.5, "web": 0.5})  # a pandas DataFrame

An option has the name that it has on the command line (`bydore COMMAND --help-all`). Where it takes
several values, it takes a list, or a mapping for NAME=VALUE. What is wrong raises the error whose
line the command would print. Progress bars are those of the commands, and so are the folders.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bydore_pyro import cli, files, report, setup
from bydore_pyro.answer import Answer, Forecast
from bydore_pyro.command_line import options_from
from bydore_pyro.data import Domains
from bydore_pyro.errors import DataError
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.mixture import Mixture, require_finished, require_own

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray
    from torch import Tensor

T = TypeVar("T")
Targets = str | Sequence[str] | Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Forecaster:
    """What forecasts the losses of mixtures: a law of losses, and the text that names belong to."""

    forecast: Forecast
    domains: Domains

    def weights_of(self, mixture: str | Path | Mixture | Mapping[str, float]) -> Tensor:
        """Returns the weights ``(K,)`` of a mixture, or of what `setup.weights_of` takes."""
        if isinstance(mixture, str | Path):
            return setup.weights_of(str(mixture), self.domains)
        if not isinstance(mixture, Mixture):
            shares = {str(name): float(share) for name, share in mixture.items()}
            mixture = Mixture(names=tuple(shares), weights=tuple(shares.values()))
        members = [name for pool in self.domains.pools.values() for name in pool]
        known = {*self.domains.names, *members}
        mixture.check(known, self.domains.corpus.tokenizer_sha256, "the mixture")
        return setup.weights_in(mixture, self.domains)


class Run:
    """A finished run in its folder: a search, an answer, or another method's fit.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path, forecaster: Forecaster | None = None) -> None:
        require_finished(path)
        self._mixture = Mixture.from_json(path / "mixture.json")
        require_own(path)
        self.path, self._forecaster = path, forecaster

    @property
    def mixture(self) -> Mixture:
        """The weights to train on, with their intervals."""
        return self._mixture

    @property
    def weights(self) -> pandas.Series[float]:
        """The weights to train on, by domain."""
        import pandas

        return pandas.Series(self.mixture.as_dict(), name="weight")

    @cached_property
    def posterior(self) -> arviz.InferenceData | xarray.DataTree:
        """The posterior as ArviZ reads it; see `Answer.to_inference_data`.

        Raises:
            DataError: When the run has none.
        """
        import arviz

        path = self.path / "posterior.nc"
        if not path.is_file():
            raise DataError(f"Expected a run with a posterior, found none in {self.path}")
        return arviz.from_netcdf(str(path))

    def forecast(
        self,
        mixture: str | Path | Mixture | Mapping[str, float],
        against: str | Path | Mixture | Mapping[str, float] | None = None,
    ) -> pandas.DataFrame:
        """Returns the loss that one run on a mixture will have on every text, a row each: `loss`,
        the ends `low` and `high` of its 94 % interval, and its `unit`.

        Args:
            mixture: Weights by domain, or what `--mixture` takes.
            against: Likewise; then the rows are the loss less that of a run on this mixture, and
                `better` is the probability that it is below 0.

        Raises:
            DataError: When the run knows no law, or a mixture is none of its domains.
            ValueError: When weights are none.
        """
        import pandas

        if self._forecaster is None:
            raise DataError(
                "Expected a search by matching or an answer to it that this session has computed, "
                f"found {self.path}: open_run(RUN).ask() makes one of a search"
            )
        known = self._forecaster
        weights = known.weights_of(mixture)
        rows: Mapping[str, Any] = known.forecast.expected(weights)
        if against is not None:
            rows = known.forecast.difference(weights, known.weights_of(against))
        found = pandas.DataFrame.from_dict({t: vars(one) for t, one in rows.items()}, "index")
        units = known.forecast.units
        usual = next(iter(units.values())) if len({*units.values()}) == 1 else ""
        of_domains = dict.fromkeys(known.forecast.of_domains, PER_TOKEN)
        found["unit"] = [{**of_domains, **units}.get(text, usual) for text in found.index]
        return found

    def ask(self, validation: Targets | None = None, **options: Any) -> Run:
        """Answers a question to a search by matching, as `bydore ask` does.

        Args:
            validation: The targets, with or without their shares; those of the search when None.
            options: Of `bydore ask`, by name.

        Raises:
            DataError: When the run is no search that kept what it measured, or data, targets or
                mixtures are not what the question needs.
            ValueError: When an option is wrong, or no mixture meets the bounds.
        """
        given = {} if validation is None else {"validation": validation}
        asked = options_from({**given, **options, "run": self.path}, cli.AskOptions)
        folder, found = _released(cli.run_ask, asked)
        objective = asked.question.objective
        return Run(folder.path, _forecaster(found.answer, found.domains, objective))

    def page(self) -> Path:
        """Writes the report as one HTML page into the folder, and returns its path."""
        path = self.path / "report.html"
        with files.appearing_file(path) as aside:
            aside.write_text(report.html_report(self.path), encoding="utf-8")
        return path

    def __str__(self) -> str:
        """The report as text."""
        return report.report_text(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return report.short_html(self.path)


def open_run(path: str | Path) -> Run:
    """Opens the folder of a finished run.

    Raises:
        DataError: When a file is damaged.
        RunFolderError: When it is none, or has not ended.
    """
    return Run(Path(path))


def run_search(**options: Any) -> Run:
    """Searches for weights, as `bydore search` does.

    >>> run_search(steps=0)
    Traceback (most recent call last):
    ValueError: Expected steps >= 1, actual 0

    Args:
        options: Of `bydore search`, by name.

    Raises:
        DataError: When data, domains, targets or proxy are not what the search needs.
        ValueError: When an option is wrong.
    """
    asked = options_from(options, setup.Options, smoke=setup.SMOKE).resolved()
    found = _released(cli.run_search, asked)
    objective = asked.question.objective
    return Run(found.folder.path, _forecaster(found.found.answer, found.domains, objective))


def run_fit(method: str | None = None, **options: Any) -> Run:
    """Finds weights by any method, as `bydore fit` does.

    Args:
        method: Its name; with `runs`, that of a method that takes finished runs.
        options: Of `bydore fit`, by name.

    Raises:
        DataError: When data, runs or budget are not what the method needs.
        ValueError: When an option is wrong.
    """
    smoke = {**setup.SMOKE, **cli.SMALL}
    asked = options_from({"method": method, **options}, cli.FitOptions, smoke=smoke)
    return Run(_released(cli.run_fit, asked.resolved()).path)


def _forecaster(answer: Answer, domains: Domains, objective: str) -> Forecaster | None:
    if answer.forecast is None:
        return None
    worst = objective == "worst"
    return Forecaster(dataclasses.replace(answer.forecast, worst=worst), domains)


def _released(run: Callable[..., T], *options: Any) -> T:
    """Runs a command and releases the folders that it has locked."""
    try:
        return run(*options)
    finally:
        files.release_folders()
