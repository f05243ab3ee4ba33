"""A check measures what it says, predicts from nothing that it measures, and adds each run once."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest
from quick import PROXY, quickly
from tiny import documents_in, write_lines

from bydore_pyro.ask import OpenSearch, ask, open_search
from bydore_pyro.check import (
    CHECKS,
    Check,
    CheckedMixture,
    Compared,
    check,
    checks_folder,
    results_file,
)
from bydore_pyro.cli.main import main
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.scored import PER_BYTE
from bydore_pyro.data.store import open_store
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files import read_as
from bydore_pyro.law.losses import PER_TOKEN
from bydore_pyro.measure.readings import READ, READINGS, read_losses, read_readings
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import train_on_mixture
from bydore_pyro.setup.check_config import CheckConfig
from bydore_pyro.setup.domains import domains_of, language_model
from bydore_pyro.setup.options import options_in
from bydore_pyro.setup.question_config import AskConfig, QuestionConfig
from bydore_pyro.terminal import Interrupted

TEXTS = ["quiz", "a", "domain a", "domain b", "domain c", "all targets"]


@pytest.fixture(scope="module")
def searched(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search without trials for a task and a domain."""
    place = tmp_path_factory.mktemp("searched")
    texts = documents_in(open_store(store))["validation"]["b"]
    words = [text.split(" ") for text in texts]
    pieces = [one[i : i + 10] for one in words for i in range(0, len(one) - 10, 10)]
    rows = [{"q": " ".join(one[:5]), "a": " ".join(one[5:])} for one in pieces[:40]]
    quiz = write_lines(place / "quiz.jsonl", rows)
    targets = [f"{quiz},prompt_column=q,answer_column=a=.75", "a=.25"]
    given = ["--smoke", "--data", str(store), "--validation", *targets, "--proxy", str(PROXY)]
    more = ["--round_sequences", "32", "--trials", "0", "--steps", "40", "--at_least", "c=.1"]
    with quickly():
        main(["search", *given, *more, "--out", str(place / "run")])
    return place / "run"


@pytest.fixture
def run(searched: Path, tmp_path: Path) -> Path:
    """Its folder, to be changed."""
    shutil.copytree(searched, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def checked(searched: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Check]:
    """The folder of a search that was checked on its answer, the baseline and a file."""
    place = tmp_path_factory.mktemp("checked")
    shutil.copytree(searched, place / "run")
    (place / "mine.json").write_text('{"a": 0.5, "c": 0.5}')
    asked = CheckConfig(mixture=["answer", str(place / "mine.json")])
    with quickly():
        return place / "run", check(place / "run", asked)


def question_of(run: Path) -> QuestionConfig:
    return options_in(run).question


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("tree.json")}


def test_a_run_is_the_searchs_proxy_on_other_weights(checked: tuple[Path, Check]) -> None:
    """Trained and read by hand: of the search's length and rate, on what the search was read on."""
    run, found = checked
    options, asked = options_in(run), ask(run, question_of(run), run / "asked")
    domains = asked.domains
    assert found.seeds == (1, 2)
    assert (found.tokens, found.predicted_tokens) == (40 * 8 * 32, 40 * 8 * 32)
    mine = found.mixtures[str(run.parent / "mine.json")]
    assert mine.weights == {"a": 0.5, "b": 0.0, "c": 0.5}
    plain = domains_of(options, domains.corpus, 2)
    model = language_model(options, domains.corpus.vocabulary, 2)
    # It trains on all text, also on what the search kept for measuring.
    proxy = Proxy(model, options.proxy)
    proxy.config = type(options.proxy)(**{**vars(options.proxy), "warmup_steps": 8})
    list(train_on_mixture(plain, proxy, {"a": 0.5, "c": 0.5}, 40, 8, seed=2))
    expected = {f"domain {n}": loss for n, loss in read_losses(proxy, domains).items()}
    for name, text in domains.targets.items():
        losses = text.of_sequences(proxy.evaluate_tokens(text.tokens, "evaluate"))
        expected[name] = float(text.losses(losses).mean())
    expected["all targets"] = 0.75 * expected["quiz"] + 0.25 * expected["a"]
    assert {text: one.by_seed[1] for text, one in mine.losses.items()} == pytest.approx(
        expected, rel=1e-5
    )
    assert len(domains.targets["a"].tokens) < READ, "a target and a domain are read on other text"
    assert found.units == {text: PER_BYTE if text == "quiz" else PER_TOKEN for text in TEXTS} | {
        "all targets": f"{PER_BYTE} and {PER_TOKEN}"
    }
    assert found.targets == ("quiz", "a", "all targets")


def test_it_predicts_what_the_search_predicts(checked: tuple[Path, Check], searched: Path) -> None:
    """Before it was checked; its bounds decide nothing of what mixtures lose."""
    _, found = checked
    outlook = ask(searched, question_of(searched), searched / "asked").answer.outlook
    assert outlook is not None
    for name in ("answer", "natural"):
        for text, one in outlook.expected[name].items():
            predicted = found.mixtures[name].losses[text].predicted
            for part in ("loss", "low", "high"):
                assert getattr(predicted, part) == pytest.approx(getattr(one, part), abs=1e-4)
    for text, one in outlook.differences["natural"].items():
        predicted = found.mixtures["answer"].differences[text].predicted
        assert predicted.loss == pytest.approx(one.loss, abs=1e-4)


def test_means_errors_and_what_intervals_hold(checked: tuple[Path, Check]) -> None:
    """Differences are those of runs of one seed."""
    _, found = checked
    for name, mixture in found.mixtures.items():
        assert isinstance(mixture, CheckedMixture)
        assert [*mixture.losses] == TEXTS
        assert [*mixture.differences] == ([] if name == "natural" else TEXTS)
        for text, one in mixture.losses.items():
            assert isinstance(one, Compared)
            first, second = one.by_seed
            assert one.measured == pytest.approx((first + second) / 2)
            assert one.standard_error == pytest.approx(abs(first - second) / 2)
            assert one.holds == (one.predicted.low <= one.measured <= one.predicted.high)
            if name != "natural":
                apart = np.subtract(one.by_seed, found.mixtures["natural"].losses[text].by_seed)
                difference = mixture.differences[text]
                assert difference.by_seed == pytest.approx(apart)
                error = statistics.stdev(apart) / math.sqrt(2)
                assert difference.standard_error == pytest.approx(error)
    assert found.held("losses", targets=True)[1] == 9
    assert found.held("differences", targets=False) == (
        sum(
            one.holds
            for mixture in found.mixtures.values()
            for text, one in mixture.differences.items()
            if text.startswith("domain ")
        ),
        6,
    )


def test_the_runs_join_the_readings_once_and_predict_others_alone(
    checked: tuple[Path, Check], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same check again trains nothing, adds nothing and predicts the same."""
    before, found = checked
    shutil.copytree(before, tmp_path / "run")
    run, mine = tmp_path / "run", str(before.parent / "mine.json")
    readings = read_readings(run)
    assert found.added == 6
    assert len(readings) == 8
    first = readings[2]
    assert first.of == "check of answer, seed 1"
    assert first.tokens["b"] == pytest.approx(found.mixtures["answer"].weights["b"] * found.tokens)
    for name in "abc":
        text = f"domain {name}"
        assert first.losses[name] == found.mixtures["answer"].losses[text].by_seed[0]
    assert first.targets["quiz"] == found.mixtures["answer"].losses["quiz"].by_seed[0]
    assert len({one.run for one in readings}) == 7, "the search's own have none"
    monkeypatch.setattr("bydore_pyro.trials.proxy_runs.train_on_mixture", None)
    again = check(run, CheckConfig(mixture=["answer", mine]))
    assert again.added == 0
    assert again.mixtures == found.mixtures
    assert again.name == found.name
    assert read_readings(run) == readings
    forecast = ask(run, question_of(run), tmp_path / "asked").answer.forecast
    assert forecast is not None
    assert len(forecast.known.losses) == 8
    monkeypatch.undo()
    other = check(run, CheckConfig(mixture=["uniform"], seeds=1))
    assert other.added == 1, "the baseline's run was there"
    assert other.mixtures["uniform"].losses["quiz"].standard_error is None
    fresh = found.mixtures["natural"].losses["quiz"].predicted
    wiser = other.mixtures["natural"].losses["quiz"].predicted
    assert wiser != fresh, "the other mixtures' runs count"


def test_results_are_kept_with_their_origin(checked: tuple[Path, Check]) -> None:
    run, found = checked
    asked = CheckConfig()
    path = results_file(found, asked)
    assert path == checks_folder(run, asked) / f"{found.name}.json"
    assert read_as(Check, path) == found
    results = json.loads(path.read_text())
    assert {"seed", "config", "cost", "versions", "commit"} <= {*results}
    assert results["config"]["check"]["seeds"] == 2
    assert results["cost"]["parts"]["train"]["tokens"] == 6 * 40 * 8 * 32
    assert len(stamps(run / CHECKS)) == 6


@pytest.mark.parametrize("given", [{"decay": True}, {"tokens": 3000.0}])
def test_other_runs_are_kept_and_are_no_readings(
    run: Path, tmp_path: Path, given: dict[str, object]
) -> None:
    """Of 12 batches of 256 tokens, or with a rate that falls."""
    asked = CheckConfig(mixture=["natural"], seeds=1, out=str(tmp_path / "out"), **given)
    before = (run / READINGS).read_bytes()
    found = check(run, asked)
    assert not found.as_predicted
    assert found.tokens == (3072 if "tokens" in given else found.predicted_tokens)
    assert found.added == 0
    assert (run / READINGS).read_bytes() == before
    assert [*found.mixtures] == ["natural"]
    assert results_file(found, asked).parent == tmp_path / "out"
    assert len(stamps(tmp_path / "out")) == 1
    assert not (run / CHECKS).exists()


def test_a_check_that_is_stopped_loses_no_finished_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def stopped(domains: Domains, *given: object, **more: int) -> object:
        trained.append(more["seed"])
        if len(trained) == 2:
            raise Interrupted(2)
        return train_on_mixture(domains, *given, **more)

    monkeypatch.setattr("bydore_pyro.trials.proxy_runs.train_on_mixture", stopped)
    asked = CheckConfig(mixture=["natural"], seeds=2, tokens=1000.0)
    with pytest.raises(Interrupted):
        check(run, asked)
    assert len(stamps(run / CHECKS)) == 1 + 1, "one that is finished and one that is begun"
    monkeypatch.setattr(
        "bydore_pyro.trials.proxy_runs.train_on_mixture",
        lambda *given, **more: trained.append(more["seed"]) or train_on_mixture(*given, **more),
    )
    found = check(run, asked)
    assert trained == [1, 2, 2]
    assert len(found.mixtures["natural"].losses["quiz"].by_seed) == 2


def test_every_domain_as_a_target_is_read_as_a_domain(store: Path, tmp_path: Path) -> None:
    given = ["--smoke", "--data", str(store), "--validation", "all", "--objective", "worst"]
    more = ["--trials", "0", "--proxy", str(PROXY), "--out", str(tmp_path / "run")]
    main(["search", *given, *more])
    found = check(tmp_path / "run", CheckConfig(mixture=["uniform"], baseline="uniform", seeds=1))
    losses = found.mixtures["uniform"].losses
    for name in "abc":
        assert losses[name].by_seed == losses[f"domain {name}"].by_seed
    worst = max(losses[name].measured for name in "abc")
    assert losses["worst target"].measured == worst
    assert found.targets == ("a", "b", "c", "worst target")


def test_text_that_is_read_often_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run.parent / "one.json").write_text('{"b": 1.0}')
    text = open_store(Path(options_in(run).run.data)).size("b")
    one = str(run.parent / "one.json")
    asked = CheckConfig(mixture=[one], baseline=one, seeds=1, tokens=5.0 * text)
    check(run, asked)
    told = capsys.readouterr().err
    assert f"warning: a run on '{one}' reads the text of 'b' 5.0 times" in told


def test_what_cannot_be_checked_is_refused_before_anything_is_trained(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.ask._targets", None)
    (run.parent / "bad.json").write_text('{"a": 0.5, "z": 0.5}')
    with pytest.raises(DataError, match="found 'z' in"):
        check(run, CheckConfig(mixture=[str(run.parent / "bad.json")]))
    opened = open_search(run, question_of(run), AskConfig())
    with pytest.raises(DataError, match="for a forecast of it, found none"):
        OpenSearch(**{**vars(opened), "readings": opened.readings[:1]}).require_forecast("it")
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "sha256": "0" * 64}))
    with pytest.raises(DataError, match=r"Expected the data of the search in .* \(000000000000\)"):
        check(run)
    config = json.loads((run / "config.json").read_text())
    of_model = {"proxy": "models/proxy-tiny", "checkpoint": "somewhere"}
    of_model = {**config, "run": {**config["run"], **of_model}}
    (run / "config.json").write_text(json.dumps(of_model))
    with pytest.raises(DataError, match="search of a proxy, which can be trained, found that of"):
        check(run)
    (run / "config.json").write_text(json.dumps(config))
    (run / "mixture.json").unlink()
    with pytest.raises(RunFolderError, match="Expected a finished"):
        check(run)
    assert not (run / CHECKS).exists()
