"""The Pyro guide over mixture weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import pyro
import torch
from pyro.distributions import LogNormal
from pyro.infer.autoguide import AutoGuide
from pyro.nn import PyroParam
from pyro.poutine.runtime import get_plates
from torch import Tensor, nn

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import SCALE, WEIGHTS
from bydore_pyro.core.network import forget_stored, made_pyros, stored_by_others

if TYPE_CHECKING:
    import arviz
    import xarray

__all__ = ["MixtureGuide"]

INITIAL_DEVIATION = 0.1  # of the log of the scale, before a guide's first step
QUANTILE_DRAWS = 4000
# Plates of draws, which share a posterior: Pyro's particles, and Pyro's and our names with "_".
OF_DRAWS = ("num_particles_vectorized", "_")


class MixtureGuide(AutoGuide):
    """The amortised variational posterior ``q(w | s) = GammaDirichlet(a(s), b(s))``.

    A guide for any Pyro model with a sample site on the simplex. It is called with the model's
    arguments. The network sees the first, or None where there is none or all are keywords. For a
    batch of simplexes, ``(N, K)``, call it inside the model's plate, or append it to an
    `AutoGuideList`, which has the plates already::

        def amortised(counts):
            with pyro.plate("documents", len(counts), subsample_size=100) as index:
                return guide(counts[index])

        guides = AutoGuideList(model)
        guides.append(AutoNormal(poutine.block(model, hide=["shares"])))
        guides.append(guide)

    The network becomes a `PyroModule` in place. Its parameters stand in Pyro's store as
    ``NAME.network.PARAMETER``, `NAME` being the site, or the guide's place in a list
    (``AutoGuideList.1``), once it has been called. As with Pyro's own guides, one that is called
    takes what is stored under its names; `posterior`, `quantiles` and `median` read the guide's own
    parameters, and write nothing. `load_state_dict` and `start_at` put other values there.

    Args:
        network: Maps what the guide is called with to Gamma shape and rate, each ``(..., K)`` and
            positive; a `PriorNetwork`, a `FeatureNetwork`, a `FreeConcentrations`, or any module of
            that signature. Its attribute `event_dim`, 1 by default, is how many dimensions of its
            input belong to one simplex; a list's plates subsample the others.
        name: The sample site.
        scale: Whether it samples the site "scale" too, as evidence with a precision needs it:
            ``LogNormal(scale_loc, exp(scale_log_deviation))``, independent of the weights. Both
            parameters are free, whatever the signals; they start at 0 and log 0.1, in the dtype and
            on the device of the network.

    Raises:
        ValueError: When the network is no module; when called, where stored parameters are of
            another shape, or a plate has no dimension in the posterior.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3.
    """

    def __init__(self, network: nn.Module, name: str = WEIGHTS, *, scale: bool = False) -> None:
        if not isinstance(network, nn.Module):
            raise ValueError(f"Expected a network that is an nn.Module, actual {network!r}")
        super().__init__(None)
        self._pyro_name = name
        made_pyros(network)
        self.network = network
        self.site = name
        self.has_scale = scale
        if scale:
            like = next(network.parameters(), torch.zeros(()))
            self.scale_loc = PyroParam(like.detach().new_zeros(()))
            start = like.detach().new_tensor(math.log(INITIAL_DEVIATION))
            self.scale_log_deviation = PyroParam(start)

    def posterior(self, signals: Tensor | None = None) -> GammaDirichlet:
        """Returns ``q(w | s)`` for signals ``(..., K)``, or what the network takes.

        It is float64 where the network's parameters or the signals are.

        Raises:
            ValueError: When the network returns one tensor, or numbers that `GammaDirichlet`
                refuses, as those of a fit that diverges.
        """
        with nullcontext() if self._pyro_context.active else pyro.get_param_store().scope():
            found = self.network(signals)  # a store of its own: nothing is written when it is read
        if isinstance(found, Tensor):
            raise ValueError("Expected a network that returns shape and rate, actual one tensor")
        dtype = torch.promote_types(found[0].dtype, getattr(signals, "dtype", torch.bool))
        try:
            return GammaDirichlet(*(x.to(dtype) for x in found))
        except ValueError as error:
            broken = [name for name, x in self.named_parameters() if not x.isfinite().all()]
            names = ", ".join(name.removesuffix("_unconstrained") for name in broken)
            cause = f"a step has left NaN or infinity in {names}, as its gradient was not finite"
            raise ValueError(
                f"{error}; {cause if broken else 'the fit diverges'}: lower its learning rate, "
                "give the network smaller features, such as logs of counts, or use float64"
            ) from error

    def scale_posterior(self) -> LogNormal:
        """Returns the posterior of the scale.

        Raises:
            ValueError: When the guide has no scale.
        """
        if not self.has_scale:
            raise ValueError("Expected a guide with scale=True, actual scale=False")
        return LogNormal(self.scale_loc, self.scale_log_deviation.exp())

    def forward(self, signals: Tensor | None = None, *_: object, **__: object) -> dict[str, Tensor]:
        """Samples, and returns values by site: the weights ``(..., K)``, the scale if there is one.

        Further arguments of the model are ignored.

        Raises:
            ValueError: When a stored parameter has another shape, or a plate no dimension in the
                posterior.
        """
        for name, stored, own in stored_by_others(self):
            if stored.shape != own.shape:
                raise ValueError(
                    f"Expected the stored parameter {name!r} of shape {tuple(own.shape)}, "
                    f"actual {tuple(stored.shape)}: another guide's? pyro.clear_param_store() "
                    "removes it"
                )
        with ExitStack() as plates:
            for plate in self._plates_of_a_list():
                index = plates.enter_context(plate)
                dim = plate.dim - getattr(self.network, "event_dim", 1)
                if isinstance(signals, Tensor) and signals.shape[dim:][:1] == (plate.size,):
                    signals = signals.index_select(dim, index)
            q = self.posterior(signals)
            _require_plates(q)
            values = {self.site: pyro.sample(self.site, q)}
        if self.has_scale:
            values[SCALE] = pyro.sample(SCALE, self.scale_posterior())
        return values

    @torch.no_grad()
    def quantiles(
        self, quantiles: Sequence[float], signals: Tensor | None = None, *_: object, **__: object
    ) -> dict[str, Tensor]:
        """Returns quantiles of every weight by site, ``(Q, ..., K)``, and of the scale, ``(Q,)``.

        Those of the weights are of 4,000 draws, always the same: a median is off by 2 % of the
        standard deviation. Each is of one weight alone, so a row need not sum to 1; the mean does.
        """
        q = self.posterior(signals)
        at = torch.as_tensor(quantiles, dtype=q.mean.dtype, device=q.mean.device)
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            torch.manual_seed(0)
            drawn = q.sample(torch.Size((QUANTILE_DRAWS,)))
        found = {self.site: drawn.quantile(at, 0)}
        if self.has_scale:
            found[SCALE] = self.scale_posterior().icdf(at)
        return found

    def median(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Returns the median of every weight, ``(..., K)``, and of the scale; see `quantiles`."""
        return {name: x[0] for name, x in self.quantiles([0.5], *args, **kwargs).items()}

    def to_inference_data(
        self, model: Callable[..., Any], *args: Any, **options: Any
    ) -> arviz.InferenceData | xarray.DataTree:
        """Returns the posterior, the prior and the predictions of a model for ArviZ.

        Args:
            model: A Pyro model, all of whose latent sites are this guide's.
            args: What both are called with.
            options: `coords`, `dims`, `num_draws`, `seed` of `bydore_pyro.core.to_inference_data`.

        Raises:
            DataError: When ArviZ is not installed.
            ValueError: What `bydore_pyro.core.to_inference_data` refuses.
        """
        from bydore_pyro.core.inference_data import to_inference_data

        return to_inference_data(model, self, *args, **options)

    def _plates_of_a_list(self) -> list[Any]:
        """Returns the plates of the site that the `AutoGuideList` has made."""
        master = self.master and self.master()
        if master is None or master.prototype_trace is None:  # it has not been called
            return []
        made = self._create_plates()
        frames = master.prototype_trace.nodes[self.site]["cond_indep_stack"]
        return [made[frame.name] for frame in frames]

    def _load_from_state_dict(self, *args: Any) -> None:
        """torch's step of `load_state_dict`: what is loaded stands, not what is stored."""
        forget_stored(self)
        super()._load_from_state_dict(*args)


def _require_plates(q: GammaDirichlet) -> None:
    """Refuses a plate of data all of whose members would get one posterior."""
    for frame in get_plates():
        missing = frame.vectorized and frame.size > 1 and -frame.dim > len(q.batch_shape)
        if missing and not frame.name.startswith(OF_DRAWS):
            raise ValueError(
                f"Expected a posterior for each of the {frame.size} in the plate {frame.name!r}, "
                f"actual batch shape {tuple(q.batch_shape)}: give signals of all, or "
                f"FreeConcentrations(K, batch_shape=(N,)); size 1 shares one"
            )
