"""`bydore weights` as a user runs it, on a store, on sizes and on neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.cli.weights import WeightsConfig, weights_command
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.supply import with_domain_tokens
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.weights_files import mixture_from

BLEND = "steps: 9\ndata:\n  blend: 30 /x/birds_text_document 70 /x/digits_text_document\n"


def rows(text: str) -> dict[str, list[str]]:
    """The lines of a table by their first word."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    (tmp_path / "run.yaml").write_text(BLEND)
    return tmp_path / "run.yaml"


@pytest.mark.filterwarnings("ignore:.* the weights sum to 100; they were normalised")
def test_a_trainers_configuration_on_a_store(
    blend: Path, corpus: TokenStore, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(blend), "--data", str(corpus.folder), "--tokens", "1M"]
    weights_command([*given, "--repeat", "50"])
    captured = capsys.readouterr()
    table = rows(captured.out)
    assert table["domain"] == ["share", "tokens", "epochs", "documents"]
    assert [*table] == ["domain", "digits", "birds"], "the largest first"
    share, tokens, epochs, documents, mark = table["digits"]
    assert (share, tokens) == ("70.00%", "700,000")
    counted = 700_000 / corpus.size("digits")
    assert float(epochs.replace(",", "")) == pytest.approx(counted, rel=0.01)
    assert documents != "?"
    assert mark == "!!" if counted > 16 else "!"
    lines = captured.err.splitlines()
    assert f"{blend}: the weights are those in 'data.blend'; no other key is read" in lines
    assert any("it names 2 of the data's 4 domains; without weight: " in line for line in lines)
    assert any(line.startswith("Read more than 4 times") for line in lines)
    assert any("reads no domain more than once has " in line for line in lines)


@pytest.mark.filterwarnings("ignore:.* the weights sum to 100; they were normalised")
def test_sizes_without_a_store(
    blend: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sizes.yaml").write_text("birds: 150M\ndigits: 7B")
    given = [str(blend), "--domain_tokens", str(tmp_path / "sizes.yaml"), "--tokens", "10B"]
    weights_command([*given, "--repeat", "20"])
    table = rows(capsys.readouterr().out)
    assert table["birds"] == ["30.00%", "3,000,000,000", "20", "?", "!!"]
    assert table["digits"] == ["70.00%", "7,000,000,000", "1", "?"]
    with pytest.raises(SystemExit) as exit_:
        weights_command([*given, "--out", str(tmp_path / "out.csv")])
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert rows(captured.out) == table, "shown, and then refused"
    assert "at most 16 epochs of each domain, found 20 of 'birds' (30.00%): --rep" in captured.err
    assert not (tmp_path / "out.csv").exists()
    weights_command([*given[:1], "--domain_tokens", "birds=1B", "digits=1B", "--tokens", "1B"])
    assert rows(capsys.readouterr().out)["birds"][2] == "0.3"


@pytest.mark.filterwarnings("ignore:.* the weights sum to 100; they were normalised")
def test_shares_alone_and_what_is_unknown(
    blend: Path, corpus: TokenStore, capsys: pytest.CaptureFixture[str]
) -> None:
    weights_command([str(blend)])
    assert rows(capsys.readouterr().out)["birds"] == ["30.00%"]
    blend.write_text("birds: 0.5\nplanes: 0.5")
    weights_command([str(blend), "--data", str(corpus.folder), "--tokens", "100"])
    said = capsys.readouterr().err
    assert "Not among the domains of the data: planes.\n" in said
    assert "neither --data nor --domain_tokens tells the size: planes.\n" in said
    assert "less than a sequence of 2,048 tokens: birds (0.024), planes (0.024).\n" in said


def test_a_run_knows_its_own_text(
    corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    mixture = Mixture(names=("birds", "digits"), weights=(0.25, 0.75))
    (run / "mixture.json").write_text(mixture.to_json())
    some = ["birds", "digits"]
    index = with_domain_tokens(corpus, ["birds=1B", "digits=3B"], some).index
    target = {"train": {"tokens": 0, "bytes": 0}, "validation": {"tokens": 9}}
    domains = {name: index["domains"][name] for name in some} | {"quiz": target}
    pools = {"*": some}
    manifest = {**index, "domains": domains | {"*": index["domains"]["greek"]}, "pools": pools}
    (run / "manifest.json").write_text(json.dumps(manifest))
    weights_command([str(run), "--tokens", "8B"])
    captured = capsys.readouterr()
    table = rows(captured.out)
    assert [table[name][2] for name in some] == ["2", "2"]
    assert table["birds"][3] != "?", "by the documents' length"
    assert "without weight" not in captured.err
    weights_command([str(run), "--tokens", "8B", "--domain_tokens", "x/birds=2B"])
    assert rows(capsys.readouterr().out)["birds"][2] == "1"


def test_epochs_become_shares_that_every_command_reads(
    blend: Path, corpus: TokenStore, tmp_path: Path
) -> None:
    blend.write_text(
        "base_model: x\ndatasets: [{path: birds, weight: 1}, {path: digits, weight: .5}]"
    )
    out = tmp_path / "mixture.json"
    weights_command([str(blend), "--data", str(corpus.folder), "--out", str(out)])
    units = corpus.index["units"]
    rates = {n: corpus.index["domains"][n]["train"] for n in ("birds", "digits")}
    tokens = {n: units[n]["bytes"] * r["tokens"] / r["bytes"] for n, r in rates.items()}
    share = tokens["birds"] / (tokens["birds"] + tokens["digits"] / 2)
    assert mixture_from(out).as_dict()["birds"] == pytest.approx(share)
    table = tmp_path / "table.csv"
    weights_command([str(out), "--tokens", "1M", "--out", str(table)])
    assert mixture_from(table).as_dict() == pytest.approx(mixture_from(out).as_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--unit", "words"], "Expected a unit (tokens, documents, epochs), found 'words'"),
        (["--unit", "epochs"], "epochs, how often text is read, instead of shares of tokens"),
        (["--out", "x.csv"], "Expected --tokens for a table, found none with --out x.csv"),
        (["--domain_tokens", "none"], "Expected tokens of domains in none, found:"),
        (["--tokens", "0"], "Expected tokens"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str], message: str, blend: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        weights_command([str(blend), *options])
    assert exit_.value.code == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "error" in one]
    assert message in line


def test_sizes_whose_names_fit_two_domains_are_refused(
    blend: Path, corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = tmp_path / "sizes.json"
    sizes.write_text(json.dumps({"a/birds": 9, "b/birds": 9}))
    given = [str(blend), "--data", str(corpus.folder)]
    with pytest.raises(SystemExit):
        weights_command([*given, "--domain_tokens", str(sizes)])
    assert "'a/birds' and 'b/birds', which both match 'birds'" in capsys.readouterr().err
    assert WeightsConfig(file="x").sequence_length == 2048
