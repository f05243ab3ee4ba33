"""Networks that give a guide its Gamma shapes and rates: amortised ones, and free parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyro
import torch
from pyro.nn import PyroParam
from pyro.nn.module import to_pyro_module_
from torch import Tensor, nn

__all__ = ["FeatureNetwork", "FreeConcentrations", "PriorNetwork"]

WIDTH, LAYERS, HEADS = 32, 2, 4  # of the Transformers
SIGNAL_SCALE = 0.1  # of the standardised signals at the prior network's input
ABSENT, ABSENT_RATE = 1e-3, 1e7  # concentration of a masked component, and its rate: a point


class PriorNetwork(nn.Module):
    """``(a, b) = softplus(Linear(Transformer(LayerNorm(Linear(c s) + embedding))) + bias)``.

    ``s`` are the signals, standardised over the domains, and ``c`` is 0.1: the embedding must
    outweigh them, or their noise becomes jitter of the weights.

    A domain embedding gives each domain its identity: without it the network sees K exchangeable
    numbers and cannot separate domains of equal loss. For the same reason the output layer has a
    bias of its own for every domain. The output weights start at zero, so that before the first
    step every domain has the shape and the rate 1 whatever the signals.

    Softplus is linear above 1: shapes in the hundreds, which a sharp posterior has, are hundreds of
    steps of a bias away.

    Args:
        num_domains: K, at least 2.

    Raises:
        ValueError: When `num_domains` is below 2.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.3, step (i).
    """

    def __init__(self, num_domains: int) -> None:
        super().__init__()
        if num_domains < 2:
            raise ValueError(f"Expected num_domains >= 2, actual {num_domains}")
        self.num_domains = num_domains
        self.project = nn.Linear(1, WIDTH)
        self.embedding = nn.Parameter(torch.randn(num_domains, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.encoder = _transformer()
        self.output = nn.Linear(WIDTH, 2, bias=False)
        nn.init.zeros_(self.output.weight)
        one = torch.ones(num_domains, 2, dtype=torch.float64)
        bias = one + torch.log(-torch.expm1(-one))  # softplus maps it to 1
        self.domain_bias = nn.Parameter(bias.to(self.embedding.dtype))

    def forward(self, signals: Tensor) -> tuple[Tensor, Tensor]:
        """Maps signals ``(..., K)``, nats per token, to Gamma shape and rate, ``(..., K)``, > 0.

        These are of the network's dtype, whatever the signals' is.

        Raises:
            ValueError: When the signals are not ``(..., K)``.
        """
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
        # A floor keeps the parameters positive where softplus underflows.
        raw = nn.functional.softplus(self.output(encoded) + self.domain_bias) + 1e-6
        a, b = raw.unbind(-1)
        return a, b


class FeatureNetwork(nn.Module):
    """``(log a / b, log b) = Linear(Transformer(LayerNorm(Linear(x) + embedding))) + Linear(x)``.

    An amortiser for other models, with two kinds of components:

    - With `num_components`, K, they are the same in every data point, as topics are. The features
      ``(..., D)`` are the data point's. Every component has its embedding and its last Linear.
    - Without, the features ``(..., K, D)`` are the components' own, which are known by them alone.
      K may differ from call to call. A component whose features are NaN is absent: the others do
      not see it, and its concentration is 1e-3. A model gives it the same:
      ``Dirichlet(alpha.masked_fill(absent, 1e-3))``.

    Args:
        num_features: D, at least 1. Counts are better given as ``log(1 + count)``.
        num_components: K, at least 2; None where it varies.

    Raises:
        ValueError: When a number is out of range.
    """

    def __init__(self, num_features: int, num_components: int | None = None) -> None:
        super().__init__()
        if num_features < 1:
            raise ValueError(f"Expected num_features >= 1, actual {num_features}")
        if num_components is not None and num_components < 2:
            raise ValueError(f"Expected num_components >= 2, actual {num_components}")
        self.num_components = num_components
        self.event_dim = 2 if num_components is None else 1
        self.project = nn.Linear(num_features, WIDTH)
        self.embedding = nn.Parameter(torch.randn(num_components or 1, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.encoder = _transformer()
        self.output = nn.Linear(WIDTH, 2)
        self.direct = nn.Linear(num_features, 2 * (num_components or 1), bias=False)
        for layer in (self.output, self.direct):
            nn.init.zeros_(layer.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Maps features to Gamma shape and rate, ``(..., K)``, > 0, of the network's dtype.

        Raises:
            ValueError: When the features are of another width, or where K is fixed, not finite.
        """
        width = self.project.in_features
        shape = tuple(getattr(features, "shape", ()))
        if shape[-1:] != (width,) or len(shape) < self.event_dim:
            expected = f"(..., {'' if self.num_components else 'K, '}{width})"
            raise ValueError(
                f"Expected features {expected} as the guide's first argument, "
                f"actual {shape or features}"
            )
        features = features.to(self.embedding.dtype)
        absent = features.isnan().any(-1)
        if self.num_components and not bool(features.isfinite().all()):
            raise ValueError(
                "Expected finite features; only where components have their own can these be NaN"
            )
        features = features.nan_to_num()
        direct = self.direct(features)
        if self.num_components:
            direct = direct.unflatten(-1, (self.num_components, 2))
            features = features.unsqueeze(-2)  # (..., 1, D)
        tokens = self.norm(self.project(features) + self.embedding)  # (..., K, WIDTH)
        flat = tokens.reshape(-1, *tokens.shape[-2:])
        mask = None if self.num_components else absent.reshape(flat.shape[:2])
        encoded = self.encoder(flat, src_key_padding_mask=mask).reshape(tokens.shape)
        a, b = _from_logs(*(self.output(encoded) + direct).unbind(-1))
        if self.num_components:
            return a, b
        return a.masked_fill(absent, ABSENT * ABSENT_RATE), b.masked_fill(absent, ABSENT_RATE)


class FreeConcentrations(nn.Module):
    """Gamma shapes and rates that are parameters themselves, the same whatever the signals.

    For one posterior instead of an amortised one, or for one in each place of a plate. The
    parameters are logs, so that large numbers are reached in few steps::

        a / b = exp(log_total + log_mean),    b = exp(log_rate)

    `log_total` is a common factor of all mean concentrations, which no equation needs: the sum of
    the concentrations says how wide the posterior is. Each `log_mean` alone has a gradient that is
    mostly the noise of its own weight, so that a step by the gradient's sign, as Adam's nearly is,
    hardly changes the sum.

    Args:
        num_domains: K, at least 2.
        initial_shape: Shape and rate of every domain before the first step. From 1 downwards a
            divergence from a Dirichlet is infinite, and up to 2 its estimate has no variance.
        batch_shape: Of the posteriors, as of the plates around the site: its full sizes, the
            rightmost last, where a plate subsamples.

    Raises:
        ValueError: When `num_domains` or `initial_shape` is out of range.
    """

    def __init__(
        self, num_domains: int, initial_shape: float = 5.0, batch_shape: Sequence[int] = ()
    ) -> None:
        super().__init__()
        if num_domains < 2:
            raise ValueError(f"Expected num_domains >= 2, actual {num_domains}")
        if not 0 < initial_shape < math.inf:
            raise ValueError(f"Expected a finite initial_shape > 0, actual {initial_shape}")
        shape = (*batch_shape, num_domains)
        self.log_total = nn.Parameter(torch.zeros((*batch_shape, 1)))
        self.log_mean = nn.Parameter(torch.zeros(shape))
        self.log_rate = nn.Parameter(torch.full(shape, math.log(initial_shape)))

    def forward(self, signals: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns Gamma shape and rate, ``(..., K)``, > 0; the signals are not looked at."""
        parameters = self.log_total, self.log_mean, self.log_rate
        log_total, log_mean, log_rate = (pyro.subsample(x, event_dim=1) for x in parameters)
        return _from_logs(log_total + log_mean, log_rate)

    @torch.no_grad()
    def start_at(self, a: Tensor, b: Tensor) -> None:
        """Sets shape and rate, ``(..., K)``.

        Raises:
            ValueError: When they are not positive, not finite or of another shape.
        """
        for name, value in (("shapes", a), ("rates", b)):
            if value.shape != self.log_mean.shape:
                expected = tuple(self.log_mean.shape)
                raise ValueError(f"Expected {name} {expected}, actual {tuple(value.shape)}")
            if not bool(((value > 0) & value.isfinite()).all()):
                raise ValueError(f"Expected finite {name} > 0, actual {value.tolist()}")
        forget_stored(self)
        self.log_total.zero_()
        self.log_mean.copy_(a.log() - b.log())
        self.log_rate.copy_(b.log())


def made_pyros(network: nn.Module) -> None:
    """Turns a network into a `PyroModule` in place, whose parameters follow Pyro's store.

    Of a plain parameter a `PyroModule` would train the stored tensor and compute with its own.
    """
    to_pyro_module_(network)
    for module in network.modules():
        for name, value in list(module.named_parameters(recurse=False)):
            if name.endswith("_unconstrained"):
                continue
            delattr(module, name)
            if value.requires_grad:
                setattr(module, name, PyroParam(value.detach()))
            else:  # frozen; what stands in Pyro's store is trained
                module.register_buffer(name, value.detach())


def forget_stored(module: nn.Module) -> None:
    """Removes from Pyro's store what another module has put there under this one's names: it would
    be taken at the next call."""
    for name, _, _ in stored_by_others(module):
        del pyro.get_param_store()[name]


def stored_by_others(module: nn.Module) -> list[tuple[str, Tensor, Tensor]]:
    """Returns tensors in Pyro's store under a `PyroModule`'s names: name, the other's, its own."""
    prefix = getattr(module, "_pyro_name", "")  # "" of one in no guide
    stored = dict(pyro.get_param_store().named_parameters())
    found: list[tuple[str, Tensor, Tensor]] = []
    for name, own in module.named_parameters():
        full = f"{prefix}.{name}".removesuffix("_unconstrained")
        if prefix and stored.get(full, own) is not own:
            found.append((full, stored[full], own))
    return found


def _transformer() -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def _from_logs(log_mean: Tensor, log_rate: Tensor) -> tuple[Tensor, Tensor]:
    """Returns shape and rate for the logs of the mean concentrations and of the rates."""
    return (log_mean + log_rate).exp(), log_rate.exp()
