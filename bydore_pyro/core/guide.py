"""The Pyro guide over mixture weights, and the Pyro model it belongs to."""

from __future__ import annotations

import math

import pyro
import torch
from pyro.distributions import Dirichlet, LogNormal
from pyro.nn import PyroModule
from torch import Tensor, nn

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.prior import CONCENTRATIONS, SparseDirichlet
from bydore_pyro.core.prior_net import PriorNetwork

__all__ = ["MixtureGuide", "mixture_model"]

WEIGHTS = "weights"  # names of the sample sites that model and guide share
SCALE = "scale"
INITIAL_DEVIATION = 0.1  # of the log of the scale, before a guide's first step


def mixture_model(
    signals: Tensor,
    linear: Tensor,
    kl_weight: float = 1.0,
    precision: Tensor | None = None,
    concentrations: tuple[float, ...] = CONCENTRATIONS,
) -> Tensor:
    """The Pyro model: a prior on the simplex and the evidence of the validation set.

    First order, without `precision`, as in the paper::

        w ~ Dirichlet(1_K),    factor  g . w / lam  ~  log p(D_val | theta(w)) / T

    Second order, a Gaussian evidence in ``u = s w`` whose scale ``s`` is free: by how much of a
    mixture of the domains the validation set is explained, 1 where it is one. Its prior is weak,
    and that of the weights does not know how sparse these are::

        w ~ SparseDirichlet,    s ~ LogNormal(0, 1),
        factor  (h . s w - 1/2 (s w)' Lambda (s w)) / lam

    It runs under Pyro's own inference too: SVI, NUTS, importance sampling, `Predictive`.

    Args:
        signals: Domain losses ``(K,)``, nats per token; the model takes them only to share the
            guide's signature.
        linear: The evidence's first order ``(K,)``, positive where a domain helps: ``g``, the fall
            of the validation loss per unit of weight, nats per token; or ``h``, nats, with a
            `precision`.
        kl_weight: The temperature ``lam > 0``, in the unit of `linear`: the weight of the KL term
            when the objective is stated in that unit. 1 for an evidence in nats.
        precision: ``Lambda (K, K)``, symmetric and positive semi-definite, in the unit of `linear`.
        concentrations: Of the prior beside a `precision`; see `SparseDirichlet`.

    Returns:
        The weights ``(K,)``, at the sample site "weights"; the scale, where there is one, is at the
        site "scale".

    Raises:
        ValueError: When `precision` is not ``(K, K)``.
    """
    prior = Dirichlet(torch.ones_like(linear))
    if precision is not None:
        prior = SparseDirichlet.like(linear, concentrations)
    weights = pyro.sample(WEIGHTS, prior)
    if precision is None:
        pyro.factor("validation", (linear * weights).sum(-1) / kl_weight)
        return weights
    if precision.shape != 2 * linear.shape[-1:]:
        expected = 2 * tuple(linear.shape[-1:])
        raise ValueError(f"Expected precision {expected}, actual {tuple(precision.shape)}")
    scale = pyro.sample(SCALE, LogNormal(linear.new_zeros(()), linear.new_ones(())))
    u = scale.unsqueeze(-1) * weights  # (..., K)
    evidence = (linear * u).sum(-1) - ((u @ precision) * u).sum(-1) / 2
    pyro.factor("validation", evidence / kl_weight)
    return weights


class MixtureGuide(PyroModule):
    """The amortised variational posterior ``q(w | s) = GammaDirichlet(a(s), b(s))``.

    A guide for any Pyro model with a sample site on the simplex. It is called with the model's
    arguments, of which the network sees the first. For a batch of simplexes, ``(N, K)``, call it
    inside the model's plate::

        def amortised(counts):
            with pyro.plate("documents", len(counts)):
                return guide(counts)

    Its parameters stand in Pyro's store under the site's name. There the guide that is called
    replaces what another guide of the same name has left, so that each trains its own: a notebook's
    cell can be run twice. To go on from stored parameters load the guide's `state_dict`.

    Args:
        network: Maps what the guide is called with, ``(..., K)``, to Gamma shape and rate, each
            ``(..., K)`` and positive; a `PriorNetwork`, a `FreeConcentrations`, or any module of
            that signature.
        name: The sample site.
        scale: Whether it samples the site "scale" too, as evidence with a precision needs it:
            ``LogNormal(scale_loc, exp(scale_log_deviation))``, independent of the weights. Both
            parameters are free, whatever the signals; they start at 0 and log 0.1, in the dtype and
            on the device of the network.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3.
    """

    def __init__(self, network: nn.Module, name: str = WEIGHTS, *, scale: bool = False) -> None:
        super().__init__(name)
        self.network = network
        self.site = name
        self.has_scale = scale
        if scale:
            like = next(network.parameters(), torch.zeros(()))
            self.scale_loc = nn.Parameter(like.detach().new_zeros(()))
            start = like.detach().new_tensor(math.log(INITIAL_DEVIATION))
            self.scale_log_deviation = nn.Parameter(start)

    @classmethod
    def for_domains(cls, num_domains: int, *, scale: bool = False) -> MixtureGuide:
        """Builds a guide for `num_domains` domains with a default `PriorNetwork`."""
        return cls(PriorNetwork(num_domains), scale=scale)

    def posterior(self, signals: Tensor) -> GammaDirichlet:
        """Returns ``q(w | s)`` for signals ``(..., K)``."""
        return GammaDirichlet(*self.network(signals))

    def scale_posterior(self) -> LogNormal:
        """Returns the posterior of the scale.

        Raises:
            ValueError: When the guide has no scale.
        """
        if not self.has_scale:
            raise ValueError("Expected a guide with scale=True, actual scale=False")
        return LogNormal(self.scale_loc, self.scale_log_deviation.exp())

    def forward(self, signals: Tensor, *_: object, **__: object) -> Tensor:
        """Samples the weights ``(..., K)``; further arguments of the model are ignored."""
        self._own_parameters()
        weights = pyro.sample(self.site, self.posterior(signals))
        if self.has_scale:
            pyro.sample(SCALE, self.scale_posterior())
        return weights

    def _own_parameters(self) -> None:
        """Takes parameters of another guide out of Pyro's store, where this one's names are theirs.

        `pyro.param` gives back what it has under a name: SVI would train the other guide's.
        """
        own = {f"{self._pyro_name}.{name}": value for name, value in self.named_parameters()}
        store = pyro.get_param_store()
        for name, stored in list(store.named_parameters()):
            # Pyro's names of the parameters of a module that is not its own have "$$$" in them.
            if own.get(name.replace("$$$", "."), stored) is not stored:
                del store[name]
