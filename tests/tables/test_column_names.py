"""What names of columns say."""

from __future__ import annotations

import pytest

from bydore_pyro.tables.column_names import (
    key_of,
    must_be_alike,
    phase_of,
    reason_apart,
    reason_no_metric,
    says_state,
    sounds_like_a_loss,
    sounds_like_a_metric,
    without_declaration,
)

SIZES = (
    *("step", "_step", "flops", "train/global_step", "model_size", "Tokens", "numParams"),
    *("param_count", "model_params_m", "config.n_params", "tokenizer", "tokens (B)"),
)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[(n, "a setting") for n in ("seed", "lr", "config.weight_decay")],
        *[(name, "a size, a length or a model") for name in SIZES],
        *[(name, "") for name in ("arxiv_tokens", "arxiv/tokens", "weights/step")],
        ("trainLoss", "a loss of the training"),
        *[("_runtime", "a time"), ("epoch", "a time"), ("loss/train", "a loss of the training")],
        *[("Name", "names the runs"), ("State", "the runs' state")],
        *[("total", "a total"), ("", "no name"), ("Unnamed: 0", "no name")],
        *[(name, "") for name in ("new_york_times", "train_arxiv", "weights/id", "val_loss", "id")],
        *[(name, "") for name in ("eval/train_domain_loss", "mmlu", "train_the_pile_arxiv")],
    ],
)
def test_columns_that_are_set_apart_whatever_they_hold(name: str, reason: str) -> None:
    assert reason_apart(name) == reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[
            (n, "a time, a speed or a setting")
            for n in ("eval/loading_time", "tokens_per_second", "evalTime")
        ],
        *[(n, "a standard error or an interval") for n in ("acc_stderr,none", "loss_ci_low")],
        *[
            ("loss_n", "a size, a length or a number"),
            ("a/min", "the least or largest value on the way"),
        ],
        *[
            ("epochs_web", "a time, a speed or a setting"),
            ("total_flops", "a size, a length or a number"),
        ],
        *[(name, "") for name in ("val/loss", "mmlu", "timeline_qa", "minmax", "acc")],
    ],
)
def test_columns_that_are_no_metrics(name: str, reason: str) -> None:
    assert reason_no_metric(name) == reason


def test_the_last_word_decides_whether_a_name_is_of_a_loss() -> None:
    losses = ("loss", "mmlu_acc/bpb", "Perplexity", "val/CE", "valLoss", "xent")
    others = ("loss_scale", "loss_acc", "ppl_rank", "glossary", "neg_nll", "ice", "acc", "advance")
    assert all(map(sounds_like_a_loss, losses))
    assert not any(map(sounds_like_a_loss, others))
    assert all(map(sounds_like_a_metric, (*losses, "win_rate", "eval/x")))
    assert not any(map(sounds_like_a_metric, ("web", "wikipedia_en", "c4")))


def test_lengths_and_sizes_must_be_alike() -> None:
    """What is measured need not be, nor text by domain."""
    assert all(map(must_be_alike, SIZES))
    others = ("step_loss", "tokens_web", "web/tokens", "seed", "loss_per_flop")
    assert not any(map(must_be_alike, others))


def test_phases_and_keys_by_name() -> None:
    assert key_of("Run Name") == "run_name"
    assert phase_of("phase_0_web") == phase_of("web/Phase 0") == "phase 0"
    assert phase_of("w_stage2") == "stage 2"
    assert phase_of("backstage1") is phase_of("phase_web") is None


def test_domains_lose_what_declares_all_of_them() -> None:
    for start in ("weights/", "config.weights.", "train_"):
        assert without_declaration((f"{start}web", f"{start}law")) == ("web", "law")
    for names in (("weights/web", "law"), ("train_web", "weights/law"), ("trained", "training")):
        assert without_declaration(names) == names


def test_columns_on_how_runs_ended() -> None:
    assert all(map(says_state, ("State", "run_state", "Run State", "_state", "run.status")))
    assert not any(map(says_state, ("state_law", "interstate", "united_state", "crashed")))


def test_a_loss_that_is_turned_round_is_no_loss() -> None:
    turned = (
        *("loss (negated)", "negloss", "inverse_ppl", "loss_saved", "loss_margin"),
        *("loss vs baseline", "delta_bpb"),
    )
    assert not any(map(sounds_like_a_loss, turned))
    assert all(map(sounds_like_a_loss, ("eval-loss", "loss (nats)", "loss-a", "top1/val_loss")))
