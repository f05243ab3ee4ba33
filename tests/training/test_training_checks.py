"""What stops a training before it starts, in one line each."""

from __future__ import annotations

import dataclasses
import os

import pytest
import torch
from bydore_pyro.training.mixture_schedule import MixtureSchedule
from bydore_pyro.training.training_checks import (
    check_epochs,
    check_memory,
    check_positions,
    check_schedule,
    device_batch,
    memory_needed,
)
from training_runs import WEIGHTS, mixture_for, tiny_shape

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.training.mixture_dataset import MixtureDataset
from bydore_pyro.utils.config_checks import in_tokens
from bydore_pyro.utils.errors import DataError


@pytest.mark.parametrize(
    ("batch", "most", "processes", "expected"),
    [
        (512, 8, 1, (8, 64)),
        (512, 8, 64, (8, 1)),
        (512, 8, 128, (4, 1)),
        (48, 10, 4, (6, 2)),
        (7, 4, 1, (1, 7)),
        (8, 100, 2, (4, 1)),
    ],
)
def test_batches_are_shared(
    batch: int, most: int, processes: int, expected: tuple[int, int]
) -> None:
    each, accumulation = device_batch(batch, most, processes)
    assert (each, accumulation) == expected
    assert each * accumulation * processes == batch


def test_a_batch_that_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="that 3 processes share equally, found 512"):
        device_batch(512, 8, 3)


def test_mixture_and_text_go_together(corpus: TokenStore) -> None:
    own = mixture_for(corpus)
    check_schedule(MixtureSchedule.constant(own), corpus, other_tokenizer=False)
    unknown = MixtureSchedule.constant(dataclasses.replace(own, tokenizer=None))
    check_schedule(unknown, corpus, other_tokenizer=False)
    other = MixtureSchedule.constant(dataclasses.replace(own, tokenizer="f" * 64))
    with pytest.raises(DataError, match=r"found weights for another .* --other_tokenizer accepts"):
        check_schedule(other, corpus, other_tokenizer=False)
    with pytest.warns(UserWarning, match="tokens of another tokenizer"):
        check_schedule(other, corpus, other_tokenizer=True)
    missing = Mixture(names=("birds", "law"), weights=(0.5, 0.5))
    both = MixtureSchedule(ends=(0.5, 1.0), mixtures=(own, missing))
    with pytest.raises(DataError, match=r"Expected domains of the data \(.*\), found 'law'"):
        check_schedule(both, corpus, other_tokenizer=False)


def test_no_text_is_read_too_often(corpus: TokenStore) -> None:
    schedule = MixtureSchedule.constant(mixture_for(corpus))
    dataset = MixtureDataset(corpus, schedule, 5000, 32)
    times = dataset.epochs()["birds"]
    check_epochs(dataset, schedule, times + 0.01)
    fits = WEIGHTS["birds"] * 3 / times
    tokens = in_tokens(5000 * 32 * 3 / times)
    wanted = f"3 times .*found 'birds' {times:.1f} times with weight 0.5; --tokens {tokens} would"
    with pytest.raises(DataError, match=wanted):
        check_epochs(dataset, schedule, 3)
    with pytest.raises(DataError, match=r"'birds'.*'digits'.*'greek'.*'upper'"):
        check_epochs(dataset, schedule, 0.1)
    capped = mixture_for(corpus).capped({**dict.fromkeys(WEIGHTS, 1.0), "birds": fits})
    feasible = MixtureSchedule.constant(capped)
    assert MixtureDataset(corpus, feasible, 5000, 32).epochs()["birds"] == pytest.approx(3)


def test_the_model_takes_such_sequences() -> None:
    check_positions(tiny_shape(), 64, "tiny")
    with pytest.raises(
        DataError, match="sequence_length <= 64, the most that tiny takes, found 65"
    ):
        check_positions(tiny_shape(), 65, "tiny")


def test_memory() -> None:
    with torch.device("meta"):
        large = build_language_model("models/target-1b", 32000)
    gigabytes = memory_needed(large, 8, 2048) / 1e9
    # 1.1e9 x 18, 8 x 2048 x 22 x (24 x 2048 + 8 x 5632), 8 x 2048 x 12 x 32000
    assert gigabytes == pytest.approx(19.8 + 34.0 + 6.3, abs=0.2)
    assert memory_needed(large, 8, 2048, shards=8) / 1e9 == pytest.approx(gigabytes - 17.3, abs=0.2)
    assert memory_needed(large, 8, 2048, fused_loss=True) / 1e9 == pytest.approx(
        gigabytes - 6.3, abs=0.1
    )
    assert memory_needed(large, 8, 2048, recomputes=True) < 0.6 * memory_needed(large, 8, 2048)


def test_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, asked = torch.device("cpu"), []
    check_memory(2**28, cpu, 1)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    check_memory(whole / 4, cpu, 4)
    with pytest.raises(ValueError, match="GiB of memory for each process"):
        check_memory(whole / 4 + 1, cpu, 4)
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda index: asked.append(index) or (39 * 2**30, 2**40)
    )
    monkeypatch.setenv("LOCAL_RANK", "3")
    with pytest.raises(ValueError, match=r"about 56\.0 GiB of memory .* found 39\.0: a smaller"):
        check_memory(56.0 * 2**30, torch.device("cuda"), 8)
    assert asked == [3]
