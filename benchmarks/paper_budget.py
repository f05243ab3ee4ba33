"""A search of the paper's Case 1 budget, 0.4B tokens through `models/proxy-1m`, on random tokens.

Times --measured steps after ten that do not count, extrapolates to the whole budget, and prints the
fraction of the card's dense bf16 rate and a profile of one step by operation.
"""

from __future__ import annotations

import argparse
import time

import torch
from scale import MODELS, random_store
from torch.profiler import ProfilerActivity, profile

from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy, ProxyConfig, build_language_model
from bydore_pyro.search import SearchConfig, init_search, search_step
from bydore_pyro.utils import provenance

WARMUP = 10


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=float, default=0.4e9)
    parser.add_argument("--vocabulary", type=int, default=50_432)
    parser.add_argument("--batch", type=int, nargs=2, default=[256, 2048], metavar=("B", "T"))
    parser.add_argument("--domains", type=int, default=17)
    parser.add_argument("--measured", type=int, default=50)
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--peak", type=float, default=989.4e12, help="FLOP/s; an H200's")
    given = parser.parse_args()
    sequences, length = given.batch
    steps = max(WARMUP + given.measured, int(given.tokens / (sequences * length)))
    store = random_store(given.domains, given.vocabulary, 64 * length)
    domains = Domains(store, {store.names[0]: 1.0}, sequence_length=length, device=given.device)
    torch.manual_seed(0)
    model = build_language_model(MODELS / "proxy-1m", given.vocabulary).to(given.device)
    config = SearchConfig(evidence="linear", steps=steps, batch_sequences=sequences, guide_warmup=0)
    proxy = Proxy(model, ProxyConfig(precision=given.precision))
    state = init_search(domains, proxy, config)
    for _ in range(WARMUP):
        search_step(state)
    proxy.cost.seconds.clear()
    proxy.cost.flops.clear()
    start = time.perf_counter()
    for _ in range(given.measured):
        search_step(state)
    seconds = (time.perf_counter() - start) / given.measured
    flops = sum(proxy.cost.flops.values()) / given.measured
    whole = seconds * given.tokens / (sequences * length)
    total = sum(proxy.cost.seconds.values())
    rate = flops / seconds
    print(
        f"{given.device}, {given.precision}: a step of {sequences} x {length} tokens takes "
        f"{seconds * 1e3:.0f} ms, {rate:.2e} FLOP/s, {rate / given.peak:.1%} of {given.peak:.3g}"
    )
    print(f"extrapolated to {given.tokens:.3g} tokens: {whole / 60:.1f} minutes")
    print({part: f"{s / total:.0%}" for part, s in proxy.cost.seconds.items()})
    kinds = [ProfilerActivity.CPU]
    if torch.device(given.device).type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GB")
    with profile(activities=kinds) as profiler:
        search_step(state)
    print(
        profiler.key_averages().table(
            sort_by=f"self_{kinds[-1].name.lower()}_time_total", row_limit=12
        )
    )
    print(provenance())


if __name__ == "__main__":
    main()
