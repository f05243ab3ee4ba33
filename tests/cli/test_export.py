"""`bydore export` as a user runs it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from tiny import write_byte_tokenizer

from bydore_pyro.cli.export import FileConfig, export_command
from bydore_pyro.data.store import TokenStore
from bydore_pyro.export.formats import FORMATS
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.weights_files import mixture_from

WEIGHTS = {"birds": 0.5, "digits": 0.3, "greek": 0.2, "upper": 0.0}


@pytest.fixture
def run(corpus: TokenStore, tmp_path: Path) -> Path:
    """What a finished run leaves of its mixture and of its text."""
    folder = tmp_path / "run"
    folder.mkdir()
    mixture = Mixture(
        names=tuple(WEIGHTS), weights=tuple(WEIGHTS.values()), tokenizer=corpus.tokenizer_sha256
    )
    (folder / "mixture.json").write_text(mixture.to_json())
    (folder / "manifest.json").write_text(json.dumps(corpus.index))
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Runs what must fail; returns its one line without what all begin with."""
    with pytest.raises(SystemExit) as exit_:
        export_command([str(argument) for argument in arguments])
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if "error" in line]
    assert len(lines) == 1
    assert captured.err.endswith(f"{lines[0]}\n")
    assert lines[0].startswith("bydore export: error: ")
    return lines[0].removeprefix("bydore export: error: ")


def exported(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[str, str]:
    """Runs what must succeed; returns the file's text and what was said beside it."""
    export_command([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_is_printed(run: Path, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = () if FORMATS[to].paths == "unused" else ("--prefix", "/data/{domain}_")
    if "epochs" in FORMATS[to].draws:
        prefix = (*prefix, "--tokens", "9000")
    text, said = exported(capsys, run, "--to", to, *prefix)
    assert "birds" in text
    assert ("upper" in text) == FORMATS[to].keeps_zeros
    assert ": upper.\n" in said
    assert said.splitlines()[-1].startswith("Next: ")
    if FORMATS[to].stage:
        given = [str(run), "--to", to, *prefix, "--from_step", "50"]
        export_command(given)
        told = capsys.readouterr().err.splitlines()[-1]
        assert "FILE" in told
        assert to == "nanotron" or " 50" in told
    assert "warning" not in said
    begin = {"documents": "Per document: ", "epochs": "domain "}
    assert said.startswith(begin.get(FORMATS[to].draws[0], "Per token: "))


def test_what_to_do_with_the_file_names_it_as_a_shell_or_python_reads_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "Ann's weights"
    _, said = exported(capsys, run, "--to", "megatron", "--prefix", "/d", "--out", place)
    assert shlex.split(said.splitlines()[-1])[-1] == str(place)
    place.unlink()
    _, said = exported(capsys, run, "--to", "nemo", "--prefix", "/d", "--out", place)
    assert f"json.load(open({str(place)!r}))" in said


@pytest.mark.filterwarnings("always")
def test_another_tokenizer(
    run: Path, corpus: TokenStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = write_byte_tokenizer(tmp_path / "bytes")
    plain, _ = exported(capsys, run, "--to", "levanter")
    to = (run, "--to", "levanter", "--tokenizer")
    kept, said = exported(capsys, *to, folder)
    assert kept == plain
    assert f"another tokenizer ({corpus.tokenizer_sha256[:12]}), not of those of {folder}" in said
    assert "--data STORE converts them" in said
    convert = (folder, "--data", corpus.folder)
    text, said = exported(capsys, *to, *convert)
    assert "warning" not in said
    found = yaml.safe_load(text)["train_weights"]
    scaled = {}
    for name, weight in WEIGHTS.items():  # one token a byte, and one that ends a document
        counts = corpus.index["domains"][name]["train"]
        scaled[name] = weight * (counts["bytes"] + counts["documents"]) / counts["tokens"]
    total = sum(scaled.values())
    assert found == pytest.approx({n: s / total for n, s in scaled.items()}, abs=2e-6)
    assert abs(found["birds"] - 0.5) > 0.005
    # A mixture that names no tokenizer is taken for the store's; one that names another is not.
    (tmp_path / "bare.json").write_text(json.dumps(WEIGHTS))
    bare, said = exported(capsys, tmp_path / "bare.json", *to[1:], *convert)
    assert bare == text
    assert "does not name its tokenizer; the store's is assumed" in said
    own = Mixture(names=("birds",), weights=(1.0,), tokenizer="0" * 64)
    (run / "mixture.json").write_text(own.to_json())
    assert refused(capsys, *to, *convert).startswith("Expected a store of the mixture's tokenizer")


def test_mistakes_are_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    doremi = ("--to", "doremi")
    for arguments, message in (
        (("--to", "nemo"), "the following arguments are required: RUN"),
        ((run, "--to", "nemo"), "Expected --prefix for nemo"),
        ((run, "--to", "megatron", "--prefix", "/my data"), "without white space"),
        ((tmp_path, *doremi), "found no mixture.json"),
        ((run, "--to", "datasets", "--data", tmp_path / "none"), "index of a token store"),
        ((run, *doremi, "--tokenizer", tmp_path), "Expected a tokenizer in"),
        ((run, *doremi, "--out", run / "mixture.json" / "x"), str(run / "mixture.json")),
    ):
        assert message in refused(capsys, *arguments)
    with pytest.raises(ValueError, match="a value for --out"):
        FileConfig(run="x", out="")


def test_nothing_is_overwritten(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "mixture.json").read_bytes()
    for place in (run / "mixture.json", run, tmp_path / "link"):
        if place.name == "link":
            place.symlink_to(run / "mixture.json")
        said = refused(capsys, run, "--to", "doremi", "--out", place)
        assert said == f"Expected a new file, found {place}: name another by --out"
    assert (run / "mixture.json").read_bytes() == before


def test_a_mixture_through_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "mixture.json"
    os.mkfifo(pipe)
    mixture = Mixture(names=tuple(WEIGHTS), weights=tuple(WEIGHTS.values()))
    file.write_text(mixture.to_json())
    with subprocess.Popen(["sh", "-c", f"cat {file} > {pipe}"]):
        export_command([str(pipe), "--to", "doremi"])
    assert json.loads(capsys.readouterr().out)["train_domain_weights"]["birds"] == 0.5
    assert "Expected a new file, found" in refused(capsys, file, "--to", "doremi", "--out", pipe)
    assert pipe.is_fifo()


def test_what_a_run_reads_is_printed_and_written(
    run: Path, corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "blend"
    given = [run, "--to", "megatron", "--prefix", "/d", "--tokens", "40000", "--out", out]
    _, said = exported(capsys, *given)
    table = {line.split()[0]: line.split()[1:] for line in said.splitlines()[:5]}
    assert table["birds"][:2] == ["50.00%", "20,000"]
    epochs = 20_000 / corpus.size("birds")
    assert float(table["birds"][2]) == pytest.approx(epochs, rel=0.01)
    written = tmp_path / "blend.domains.csv"
    assert mixture_from(written).as_dict() == WEIGHTS
    assert written.read_text().startswith(
        "domain,share,tokens,epochs,documents\nbirds,0.5,20000.0,"
    )
    out.unlink()
    assert str(written) in refused(capsys, *given), "it is not overwritten"


def test_a_domain_over_the_cap_is_refused_unless_repeated(
    run: Path, corpus: TokenStore, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = str(100 * corpus.size("birds"))
    given = [run, "--to", "megatron", "--prefix", "/d", "--tokens", tokens]
    message = refused(capsys, *given)
    assert message.startswith("Expected at most 16 epochs of each domain, found ")
    assert "of 'birds' (50.00%)" in message
    repeat = message.partition("--repeat ")[2].split()[0]
    _, said = exported(capsys, *given, "--repeat", repeat)
    assert "Read more than 4 times, where repeated text begins to teach less: " in said
    assert "No sample" not in said
    _, said = exported(capsys, *given[:-1], "3000")
    assert (
        "less than a sequence of 2,048 tokens: birds (0.73), digits (0.44), greek (0.29)." in said
    )


def test_sizes_count_before_those_of_the_search(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sizes.yaml").write_text(
        "birds: 5B\nnet/digits: 1B\ngreek: {tokens: 1B, documents: 2M}"
    )
    given = [run, "--to", "olmo-core", "--prefix", "/d", "--tokens", "10B"]
    text, said = exported(capsys, *given, "--domain_tokens", tmp_path / "sizes.yaml")
    table = {line.split()[0]: line.split()[1:] for line in said.splitlines()[:5]}
    assert table["birds"][2] == "1"
    assert table["digits"][2] == "3"
    assert table["greek"][2:] == ["2", "4,000,000"]
    sources = {one["source_name"]: one for one in yaml.safe_load(text)["sources"]}
    assert "max_repetition_ratio" not in sources["birds"]
    assert sources["digits"]["max_repetition_ratio"] == 3, "it refuses to repeat text else"


def test_epochs_are_written_by_counts_or_not_at_all(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes, given = tmp_path / "sizes", ["--prefix", "/d", "--tokens", "10B", "--domain_tokens"]
    sizes.write_text("birds: 10B\ndigits: 2B\ngreek: 4B")
    text, _ = exported(capsys, run, "--to", "megatron-bridge", *given, sizes)
    assert yaml.safe_load(text)["source_weights"] == [0.5, 1.5, 0.5]
    assert "# Number: epochs. How often the rows of the data set are read.\n" in text
    message = refused(capsys, run, "--to", "axolotl", *given, sizes)
    assert (
        "since axolotl reads none again, found 1.5 of 'digits': --tokens 6.63e+09 fits" in message
    )
    text, _ = exported(
        capsys, run, "--to", "axolotl", *given[:3], "6.63e9", "--domain_tokens", sizes
    )
    assert yaml.safe_load(text)["datasets"][1]["weight"] == pytest.approx(0.9945)
    plain = tmp_path / "weights.json"
    plain.write_text(json.dumps(WEIGHTS))
    message = refused(capsys, plain, "--to", "axolotl", *given[:-1])
    assert message.startswith("Expected the number of tokens that there are of 'birds', since the ")


@pytest.mark.filterwarnings("always")
def test_what_only_a_length_needs_is_idle_without_one(
    run: Path, corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [run, "--to", "levanter", "--domain_tokens", "birds=1B"]
    assert "domain_tokens has no effect with no tokens" in exported(capsys, *given)[1]
    assert "repeat has no effect with no tokens" in exported(capsys, *given[:3], "--repeat", "3")[1]
    path = tmp_path / "streams.yaml"
    path.write_text("streams: {Birds: {repeat: 1}, digits: {repeat: 1}}")
    text, said = exported(capsys, path, *given[1:3], "--data", corpus.folder)
    assert "no effect" not in said, "the store's names and counts count"
    assert {*yaml.safe_load(text)["train_weights"]} == {"birds", "digits"}
