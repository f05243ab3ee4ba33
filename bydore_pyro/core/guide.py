"""The Pyro guide over mixture weights, and the networks that give its parameters."""

from __future__ import annotations

import math
from typing import Literal

import pyro
import torch
from pyro.distributions import LogNormal
from pyro.nn import PyroModule
from torch import Tensor, nn

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import SCALE, WEIGHTS

__all__ = ["FreeConcentrations", "MixtureGuide", "PriorNetwork"]

WIDTH, LAYERS, HEADS = 32, 2, 4  # of the prior network
SIGNAL_SCALE = 0.1  # of the standardised signals at its input

INITIAL_DEVIATION = 0.1  # of the log of the scale, before a guide's first step


class MixtureGuide(PyroModule):
    """The amortised variational posterior ``q(w | s) = GammaDirichlet(a(s), b(s))``.

    A guide for any Pyro model with a sample site on the simplex. It is called with the model's
    arguments. The network sees the first, or None where there is none or all are keywords. For a
    batch of simplexes, ``(N, K)``, call it inside the model's plate::

        def amortised(counts):
            with pyro.plate("documents", len(counts)):
                return guide(counts)

    Its parameters stand in Pyro's store under the site's name. A guide that is
    called removes what another one of that name has stored, so a notebook's cell can be run twice.
    To go on from stored parameters load the guide's `state_dict`.

    Args:
        network: Maps what the guide is called with, ``(..., K)``, to Gamma shape and rate, each
            ``(..., K)`` and positive; a `PriorNetwork`, a `FreeConcentrations`, or any module of
            that signature.
        name: The sample site.
        scale: Whether it samples the site "scale" too, as evidence with a precision needs it:
            ``LogNormal(scale_loc, exp(scale_log_deviation))``, independent of the weights. Both
            parameters are free, whatever the signals; they start at 0 and log 0.1, in the dtype and
            on the device of the network.

    Raises:
        ValueError: When the network is no module.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3.
    """

    def __init__(self, network: nn.Module, name: str = WEIGHTS, *, scale: bool = False) -> None:
        if not isinstance(network, nn.Module):
            raise ValueError(f"Expected a network that is an nn.Module, actual {network!r}")
        super().__init__(name)
        self.network = network
        self.site = name
        self.has_scale = scale
        if scale:
            like = next(network.parameters(), torch.zeros(()))
            self.scale_loc = nn.Parameter(like.detach().new_zeros(()))
            start = like.detach().new_tensor(math.log(INITIAL_DEVIATION))
            self.scale_log_deviation = nn.Parameter(start)

    def posterior(self, signals: Tensor | None = None) -> GammaDirichlet:
        """Returns ``q(w | s)`` for signals ``(..., K)``.

        Raises:
            ValueError: When the network returns one tensor.
        """
        found = self.network(signals)
        if isinstance(found, Tensor):
            raise ValueError("Expected a network that returns shape and rate, actual one tensor")
        return GammaDirichlet(*found)

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
        """
        self._own_parameters()
        values = {self.site: pyro.sample(self.site, self.posterior(signals))}
        if self.has_scale:
            values[SCALE] = pyro.sample(SCALE, self.scale_posterior())
        return values

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


class PriorNetwork(nn.Module):
    """``(a, b) = softplus(Linear(Transformer(LayerNorm(Linear(c s) + embedding))) + bias)``.

    ``s`` are the signals, standardised over the domains, and ``c`` is 0.1: the embedding must
    outweigh them, or their noise becomes jitter of the weights.

    A domain embedding gives each domain its identity: without it the network sees K exchangeable
    numbers and cannot tell domains of equal loss apart. For the same reason the output layer has a
    bias of its own for every domain. The output weights start at zero, so that before the first
    step every domain has the shape and the rate 1 whatever the signals.

    Softplus is linear above 1: shapes in the hundreds, which a sharp posterior has, are hundreds of
    steps of a bias away. With the link "exp" the last layer gives the logs of the mean
    concentrations ``a / b`` and of the rates, as in `FreeConcentrations`.

    Args:
        num_domains: K, at least 2.
        link: What makes shapes and rates positive.

    Raises:
        ValueError: When `num_domains` is below 2 or `link` is unknown; when called with signals not
            ``(..., K)``.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3, step (i).
    """

    def __init__(self, num_domains: int, *, link: Literal["softplus", "exp"] = "softplus") -> None:
        super().__init__()
        if num_domains < 2:
            raise ValueError(f"Expected num_domains >= 2, actual {num_domains}")
        if link not in ("softplus", "exp"):
            raise ValueError(f"Expected link 'softplus' or 'exp', actual {link!r}")
        self.num_domains = num_domains
        self.link = link
        self.project = nn.Linear(1, WIDTH)
        self.embedding = nn.Parameter(torch.randn(num_domains, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.output = nn.Linear(WIDTH, 2, bias=False)
        nn.init.zeros_(self.output.weight)
        ones = torch.ones(num_domains, dtype=torch.float64)
        self.domain_bias = nn.Parameter(self._unlinked(ones, ones).to(self.embedding.dtype))

    def forward(self, signals: Tensor) -> tuple[Tensor, Tensor]:
        """Maps signals ``(..., K)``, nats per token, to Gamma shape and rate, ``(..., K)``, > 0.

        These are of the network's dtype, whatever the signals' is.
        """
        raw = self._raw(signals) + self.domain_bias
        if self.link == "exp":
            return _from_logs(*raw.unbind(-1))
        # A floor keeps the parameters positive where softplus underflows.
        a, b = (nn.functional.softplus(raw) + 1e-6).unbind(-1)
        return a, b

    @torch.no_grad()
    def start_at(self, signals: Tensor, a: Tensor, b: Tensor) -> None:
        """Sets the domains' biases so that these signals, ``(K,)``, give shape and rate, ``(K,)``.

        Those of other signals differ as far as the network has learned to tell signals apart.
        """
        bias = self._unlinked(a.double(), b.double()) - self._raw(signals)
        self.domain_bias.copy_(bias)

    def _unlinked(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns what the link maps to shape and rate, ``(..., K, 2)``."""
        if self.link == "exp":
            return torch.stack([a.log() - b.log(), b.log()], -1)
        y = torch.stack([a, b], -1)
        return y + torch.log(-torch.expm1(-y))

    def _raw(self, signals: Tensor) -> Tensor:
        """Returns the last layer without the domains' biases, ``(..., K, 2)``."""
        shape = tuple(getattr(signals, "shape", ()))
        if shape[-1:] != (self.num_domains,):
            raise ValueError(
                f"Expected signals (..., {self.num_domains}), actual {shape or signals}"
            )
        signals = signals.to(self.embedding.dtype)
        centred = signals - signals.mean(-1, keepdim=True)
        # Inside of the root, for its gradient where all signals are equal.
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        standardised = SIGNAL_SCALE * centred / deviation
        tokens = self.norm(self.project(standardised.unsqueeze(-1)) + self.embedding)  # (..., K, D)
        flat = tokens.reshape(-1, *tokens.shape[-2:])
        encoded = self.encoder(flat).reshape(tokens.shape)
        return self.output(encoded)


class FreeConcentrations(nn.Module):
    """Gamma shapes and rates that are parameters themselves, the same whatever the signals.

    For one posterior instead of an amortised one. The parameters are the logs of the mean
    concentrations ``a / b`` and of the rates, so that large ones are reached in few steps.

    Args:
        num_domains: K, at least 2.
        initial_shape: Shape and rate of every domain before the first step.

    Raises:
        ValueError: When `num_domains` or `initial_shape` is out of range.
    """

    def __init__(self, num_domains: int, initial_shape: float = 1.0) -> None:
        super().__init__()
        if num_domains < 2:
            raise ValueError(f"Expected num_domains >= 2, actual {num_domains}")
        if not 0 < initial_shape < math.inf:
            raise ValueError(f"Expected a finite initial_shape > 0, actual {initial_shape}")
        self.log_mean = nn.Parameter(torch.zeros(num_domains))
        self.log_rate = nn.Parameter(torch.full((num_domains,), math.log(initial_shape)))

    def forward(self, signals: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns Gamma shape and rate, ``(K,)``, > 0; the signals are not looked at."""
        return _from_logs(self.log_mean, self.log_rate)

    @torch.no_grad()
    def start_at(self, signals: Tensor, a: Tensor, b: Tensor) -> None:
        """Sets shape and rate, ``(K,)``; the signals are not looked at."""
        self.log_mean.copy_(a.log() - b.log())
        self.log_rate.copy_(b.log())


def _from_logs(log_mean: Tensor, log_rate: Tensor) -> tuple[Tensor, Tensor]:
    """Returns shape and rate for the logs of the mean concentrations and of the rates."""
    return (log_mean + log_rate).exp(), log_rate.exp()
