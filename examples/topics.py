"""A topic model of this project's own pages, with an amortised guide for the topics of a section.

``python examples/topics.py`` fits the model and draws ``topics.png``.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import arviz
import matplotlib.pyplot as plt
import pyro
import torch
import xarray
from pyro import poutine
from pyro.distributions import Dirichlet, Multinomial
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoGuideList, init_to_sample
from torch import Tensor

from bydore_pyro import FeatureNetwork, MixtureGuide
from bydore_pyro.core import to_inference_data

ROOT = Path(__file__).resolve().parents[1]
TOPICS, WORDS = 4, 40


def read_counts() -> tuple[Tensor, list[str], list[str]]:
    """Returns counts of words ``(N, WORDS)`` in the sections of the pages; the words; the titles
    of the sections."""
    sections, titles = [], []
    for path in sorted(ROOT.glob("docs/*.md")):
        for part in re.split(r"^#+ ", path.read_text(encoding="utf-8"), flags=re.M):
            sections.append(re.findall(r"[a-z]{5,}", part.lower()))
            titles.append(f"{path.stem}: {part.partition(chr(10))[0][:30]}")
    found_in = Counter(word for text in sections for word in set(text))
    rare = {word for word, number in found_in.items() if 4 <= number <= len(sections) / 4}
    often = Counter(word for text in sections for word in text if word in rare)
    words = sorted(word for word, _ in often.most_common(WORDS))
    counts = torch.tensor([[float(text.count(word)) for word in words] for text in sections])
    long = counts.sum(-1) >= 10
    return counts[long], words, [title for title, kept in zip(titles, long, strict=True) if kept]


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


def fit(counts: Tensor, steps: int = 1000) -> tuple[MixtureGuide, AutoGuideList]:
    """Returns the guide of the shares, and the whole guide with a point for the topics."""
    guide = MixtureGuide(TopicNetwork(counts.shape[-1], TOPICS), name="shares")
    both = AutoGuideList(model)
    topics = poutine.block(model, hide=["shares"])
    both.append(AutoDelta(topics, init_loc_fn=init_to_sample))
    both.append(guide)  # it takes the list's plate
    rates = {"lr": 0.01, "lrd": 0.05 ** (1 / steps)}
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=1)
    svi = SVI(model, both, pyro.optim.ClippedAdam(rates), elbo)
    for _ in range(steps):
        svi.step(counts)
    return guide, both


def by_nuts(counts: Tensor, topics: Tensor, samples: int = 200) -> dict[str, Tensor]:
    """Returns draws ``(1, samples, N, TOPICS)`` of the shares of sections, given the topics."""
    mcmc = MCMC(
        NUTS(poutine.condition(model, {"words": topics})),
        num_samples=samples,
        warmup_steps=samples // 2,
        disable_progbar=True,
    )
    mcmc.run(counts)
    return mcmc.get_samples(group_by_chain=True)


def main() -> None:
    """Fits, prints every topic's words, and draws the shares of four sections."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    counts, words, titles = read_counts()
    _, both = fit(counts)
    topics = both.median(counts)["words"]
    most = [[words[k] for k in topic.argsort(descending=True)[:6]] for topic in topics]
    for topic in most:
        print(", ".join(topic))
    coords = {"sections": titles, "topics": [" ".join(topic[:2]) for topic in most], "word": words}
    dims = {"shares": ["topics"], "words": ["word"], "counts": ["word"]}
    data = to_inference_data(model, both, counts, coords=coords, dims=dims, num_draws=200)
    known, some = poutine.condition(model, {"words": topics}), counts[:4]
    coords["sections"] = titles[:4]
    exact = to_inference_data(known, by_nuts(some, topics), some, coords=coords, dims=dims)
    found = [one["posterior"]["shares"].isel(sections=slice(4)) for one in (data, exact)]
    kinds = xarray.DataArray(["guide", "NUTS"], dims="by", name="by")
    shares = xarray.concat(found, kinds, join="inner").transpose(..., "by")
    arviz.plot_forest(shares.to_dataset(name="shares"), combined=True)
    plt.gcf().set_size_inches(7, 8)
    plt.savefig("topics.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
