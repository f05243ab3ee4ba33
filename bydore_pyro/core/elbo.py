"""The custom ELBO: the expectation of the validation evidence is exact, not sampled.

It is Pyro's `TraceMeanField_ELBO`, and two rules. The expectation of a `QuadraticFactor` is in
closed form::

    E[h . u - 1/2 u' Lambda u] = E[s] h . mu - 1/2 E[s^2] (mu' Lambda mu + tr(Lambda Sigma))

with ``mu`` and ``Sigma`` the exact mean and covariance of ``q_w``. A divergence without closed form
is a mean over several draws. With `mixture_model`, ``lam`` times the loss is the paper's, where the
hypergradient ``g`` replaces the gradient of the validation evidence::

    loss(Phi) = KL(q_w || p_w) - g . mu / lam                                            (nats)

and with a Gaussian evidence in ``u = s w``, whose precision is ``Lambda``::

    loss(Phi) = KL(q_w || p_w) + KL(q_s || p_s) - E[h . u - 1/2 u' Lambda u]             (nats)

where ``Lambda = A B^-1 A`` and ``h = A B^-1 c`` come from the inner products ``A`` of the domains'
gradients, those with the target's gradient ``c``, and their noise ``B``, all measured by
`bydore_pyro.core.matching`. The language model provides the evidence, which is a constant here. So
the posterior's moments give its exact gradient, without the noise of a sample.
"""

from __future__ import annotations

from typing import Any

import torch
from pyro import poutine
from pyro.distributions.score_parts import ScoreParts
from pyro.distributions.util import scale_and_mask
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import Dirichlet, Distribution

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import QuadraticFactor, expected_evidence
from bydore_pyro.core.sparse import SparseDirichlet

__all__ = ["HypergradientELBO"]

SMALLEST_BETA = 1e-3  # the divergence grows as 1 / beta


class HypergradientELBO(TraceMeanField_ELBO):
    """Loss ``KL(q || p) - E_q[evidence]`` of a model with factors that are quadratic in weights.

    An objective for `pyro.infer.SVI`, which is called with the model's own arguments. The model
    states its evidence by `quadratic_factor`, as `mixture_model` does. Everything else is as in
    `TraceMeanField_ELBO`: plates, masks, scales, other latent sites, observed data.

    With ``h`` alone, measured again at the guide's mean, the mean is the answer; the spread does
    not know how curved the outer loss is. A `precision` makes the spread the posterior's.

    Args:
        num_samples: Draws for a divergence without closed form, such as that of a `GammaDirichlet`
            guide from a Dirichlet prior (`GammaDirichlet.estimate_kl`, with drawn concentrations of
            at least 1e-3, so that it is finite for every shape).
        given: Of `TraceMeanField_ELBO`: `num_particles`, `vectorize_particles`,
            `max_plate_nesting` and so on.

    Raises:
        ValueError: When `num_samples` is below 1. By a step: when the weights of a factor are no
            sample site of the guide; when the guide's distribution of them has no mean, or beside a
            precision no covariance, in closed form.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.4: the first order.
    """

    def __init__(self, num_samples: int = 16, **given: Any) -> None:
        super().__init__(**given)
        if num_samples < 1:
            raise ValueError(f"Expected num_samples >= 1, actual {num_samples}")
        self.num_samples = num_samples

    def _differentiable_loss_particle(
        self, model_trace: poutine.Trace, guide_trace: poutine.Trace
    ) -> tuple[Any, Any]:
        """Pyro's hook: its own sum, once the two rules have put in what they know."""
        for name, site in model_trace.nodes.items():
            if site["type"] != "sample":
                continue
            if isinstance(site["fn"], QuadraticFactor):
                expected = _expected(name, site["fn"], guide_trace)
                site["log_prob_sum"] = scale_and_mask(expected, site["scale"], site["mask"]).sum()
            elif not site["is_observed"] and name in guide_trace.nodes:
                of_guide = guide_trace.nodes[name]
                divergence = self._estimated(of_guide["fn"], site["fn"])
                if divergence is not None:  # Pyro adds these where there is no closed form
                    divergence = scale_and_mask(divergence, of_guide["scale"], of_guide["mask"])
                    site["log_prob_sum"] = torch.zeros_like(divergence).sum()
                    of_guide["score_parts"] = ScoreParts(divergence, 0, divergence)
        return super()._differentiable_loss_particle(model_trace, guide_trace)

    def _estimated(self, q: Distribution, p: Distribution) -> Tensor | None:
        """Returns the mean over draws of a divergence on the simplex; None of any other."""
        if isinstance(q, GammaDirichlet) and isinstance(
            p, Dirichlet | SparseDirichlet | GammaDirichlet
        ):
            return q.estimate_kl(p, self.num_samples, SMALLEST_BETA)
        if isinstance(p, SparseDirichlet) and q.has_rsample:
            drawn = q.rsample(torch.Size((self.num_samples,)))
            return (q.log_prob(drawn) - p.log_prob(drawn)).mean(0)
        return None


def _expected(name: str, factor: QuadraticFactor, guide_trace: poutine.Trace) -> Tensor:
    """Returns a factor's expectation under the guide, ``batch_shape``, nats."""

    def of(value: Tensor, what: str) -> Distribution:
        for site in guide_trace.nodes.values():
            if site["type"] == "sample" and site["value"] is value:
                return site["fn"]
        sites = [n for n, s in guide_trace.nodes.items() if s["type"] == "sample"]
        raise ValueError(
            f"Expected the {what} of the factor {name!r} to be the value of one of the guide's "
            f"sample sites {sites}, actual another tensor (MixtureGuide's scale=True samples a "
            "scale)"
        )

    scale = None if factor.scale is None else of(factor.scale, "scale")
    linear = factor.linear.detach()
    found = expected_evidence(of(factor.weights, "weights"), linear, factor.precision, scale)
    return found.expand(torch.broadcast_shapes(found.shape, factor.batch_shape))
