"""A topic model of this project's own pages, with an amortised guide for the topics of a section.

``python examples/topics.py`` fits the model and draws ``topics.png``.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import arviz
import pyro
import torch
from pyro import poutine
from pyro.distributions import Dirichlet, Multinomial
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoGuideList, init_to_sample
from torch import Tensor

from bydore_pyro import FeatureNetwork, MixtureGuide

ROOT = Path(__file__).resolve().parents[1]
TOPICS, WORDS = 4, 40


def read_counts() -> tuple[Tensor, list[str]]:
    """Returns counts of words ``(N, WORDS)`` in the sections of the pages, and the words."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/*.md"))]
    sections = [part for page in pages for part in re.split(r"^#+ ", page, flags=re.M)]
    texts = [re.findall(r"[a-z]{5,}", section.lower()) for section in sections]
    found_in = Counter(word for text in texts for word in set(text))
    rare = {word for word, number in found_in.items() if 4 <= number <= len(texts) / 4}
    often = Counter(word for text in texts for word in text if word in rare)
    words = sorted(word for word, _ in often.most_common(WORDS))
    counts = torch.tensor([[float(text.count(word)) for word in words] for text in texts])
    return counts[counts.sum(-1) >= 10], words


def model(counts: Tensor) -> None:
    """A topic is a distribution of words; each section has its own shares of the topics."""
    with pyro.plate("topics", TOPICS):
        topics = pyro.sample("words", Dirichlet(torch.full((counts.shape[-1],), 0.5)))
    with pyro.plate("sections", len(counts)):
        shares = pyro.sample("shares", Dirichlet(torch.full((TOPICS,), 0.5)))
        # The totals differ, which Multinomial does not look at without validation.
        words = Multinomial(1, shares @ topics, validate_args=False)
        pyro.sample("counts", words, obs=counts)


class TopicNetwork(FeatureNetwork):
    """Its input is the logarithm of the counts."""

    def forward(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Returns Gamma shape and rate, ``(N, TOPICS)``."""
        return super().forward(counts.log1p())


def fit(counts: Tensor, steps: int = 500) -> tuple[MixtureGuide, AutoGuideList]:
    """Returns the guide of the shares, and the whole guide with a point for the topics."""
    guide = MixtureGuide(TopicNetwork(counts.shape[-1], TOPICS), name="shares")
    both = AutoGuideList(model)
    topics = poutine.block(model, hide=["shares"])
    both.append(AutoDelta(topics, init_loc_fn=init_to_sample))
    both.append(guide)  # it takes the list's plate
    rates = {"lr": 0.03, "lrd": 0.05 ** (1 / steps)}
    svi = SVI(model, both, pyro.optim.ClippedAdam(rates), Trace_ELBO())
    for _ in range(steps):
        svi.step(counts)
    return guide, both


def by_nuts(counts: Tensor, topics: Tensor, samples: int = 200) -> Tensor:
    """Returns draws ``(samples, N, TOPICS)`` of the shares of some sections, given the topics."""
    known = poutine.condition(model, {"words": topics})
    mcmc = MCMC(NUTS(known), num_samples=samples, warmup_steps=samples // 2, disable_progbar=True)
    mcmc.run(counts)
    return mcmc.get_samples()["shares"]


def main() -> None:
    """Fits, prints every topic's words, and draws the shares of four sections."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    counts, words = read_counts()
    guide, both = fit(counts)
    topics = both.median(counts)["words"]
    for topic in topics:
        print(", ".join(words[k] for k in topic.argsort(descending=True)[:6]))
    some = counts[:4]
    drawn = guide.posterior(some).sample((2000,))
    found = {"guide": drawn, "NUTS": by_nuts(some, topics)}
    data = [arviz.from_dict({"shares": draws[None].numpy()}) for draws in found.values()]
    axes = arviz.plot_forest(data, model_names=list(found), combined=True, figsize=(7, 7))
    axes[0].get_legend().set(loc="upper left", bbox_to_anchor=(1, 1))
    axes[0].set_title("Shares [section, topic]: 94 % intervals")
    axes[0].figure.savefig("topics.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
