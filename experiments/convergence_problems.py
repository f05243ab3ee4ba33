"""What the theory is measured on: a problem with known gradients, and a frozen language model."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.core import Parameters, forward_mode
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy, train_on_mixture
from bydore_pyro.runs import Options, language_model, uniform_weights

DOMAINS, PARAMETERS = 6, 40


class KnownGradients:
    """Domains with losses ``ell_k(theta) = mean_i log cosh(a_ki . theta - b_ki)`` in float64.

    Every derivative is known in closed form, and the third does not vanish.

    Attributes:
        theta: The parameters.
        direction: The gradient of the validation loss at `theta`.
        g: ``<grad ell_k(theta), direction>``, exact, ``(K,)``.
        expected: The mean of the estimates ``(K,)``, in units of its own spread over domains.
        noise: The estimates' standard deviation in the same units.
    """

    def __init__(self, seed: int, noise: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (DOMAINS, 20, PARAMETERS)
        self.a = torch.randn(shape, generator=generator, dtype=torch.float64) / PARAMETERS**0.5
        self.b = torch.randn(shape[:2], generator=generator, dtype=torch.float64)
        theta = torch.randn(PARAMETERS, generator=generator, dtype=torch.float64)
        self.theta: Parameters = {"theta": theta}
        # The validation set is made of the first two domains' text.
        self.direction: Parameters = {"theta": self._gradients()[:2].mean(0)}
        self.g = self._gradients() @ self.direction["theta"]
        self.expected = (self.g / self.g.std()).float()
        self.noise = noise

    def losses(self, theta: Parameters) -> Tensor:
        """Returns the losses ``(K,)``."""
        return torch.log(torch.cosh(self.a @ theta["theta"] - self.b)).mean(1)

    def estimate(self) -> Tensor:
        """Returns `expected` with normal noise."""
        return self.expected + self.noise * torch.randn(DOMAINS)

    def _gradients(self) -> Tensor:
        inner = torch.tanh(self.a @ self.theta["theta"] - self.b)  # (K, n)
        return (inner.unsqueeze(-1) * self.a).mean(1)  # (K, P)


class FrozenProxy:
    """The proxy after `--steps` steps on uniform weights, in float64 and trained no further.

    An estimate is the exact derivative on one pair of batches, of training and of validation text,
    drawn from many such pairs, so that the mean over them is the estimates' true mean.
    """

    def __init__(self, options: Options, domains: Domains, estimates: int) -> None:
        self.sequences = options.search.signal_sequences
        model = language_model(options, domains.corpus.vocabulary, options.run.seed)
        proxy = Proxy(model, options.proxy)
        steps, batch = options.search.steps, options.search.batch_sequences
        training = train_on_mixture(
            domains, proxy, uniform_weights(domains), steps, batch, seed=options.run.seed
        )
        for _ in tqdm(training, total=steps, desc="proxy", unit="step", mininterval=0.5):
            pass
        # Its float64 twin charges the same counter.
        self.proxy = Proxy(copy.deepcopy(model).double(), options.proxy, cost=proxy.cost)
        self.cost = proxy.cost
        self.theta: Parameters = {n: p.clone() for n, p in self.proxy.parameters.items()}
        found = []
        for _ in tqdm(range(estimates), desc="estimates of g", unit="batch", mininterval=0.5):
            self.batch = domains.signal_batch(self.sequences)
            held_out = domains.validation_batch(options.search.validation_batch)
            with self.cost.part("validation"):
                _, gradient = self.proxy.gradient(held_out, "validation")
            self.direction: Parameters = gradient
            with self.cost.part("hypergradient"):
                losses = partial(self.losses, passes=3)
                found.append(forward_mode(losses, self.theta, self.direction, 1.0)[1])
        self.g = found[-1]  # of the batches at which `losses` and `direction` now stand
        mean = torch.stack(found).mean(0)
        self.estimates = (torch.stack(found) / mean.std()).float().cpu()  # (N, K)
        self.expected = self.estimates.mean(0)
        self.noise = float(self.estimates.std(0).mean())

    def losses(self, theta: Parameters, passes: int = 1) -> Tensor:
        """Returns the losses ``(K,)`` on the last batch, nats per token; see `Proxy.losses`."""
        own = self.proxy.losses(self.batch, "hypergradient", theta, passes=passes)
        return own.view(-1, self.sequences).mean(1)

    def estimate(self) -> Tensor:
        """Returns one of the estimates."""
        return self.estimates[int(torch.randint(len(self.estimates), ()))]


Problem = KnownGradients | FrozenProxy
