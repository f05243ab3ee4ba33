"""Weights that others wrote: every kind, every mistake, and thousands of mutated files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from mutations import mutated, require_one_line

from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.published import PILE_DOMAINS, pile_weights
from bydore_pyro.mixture.units import Supply
from bydore_pyro.mixture.weights_files import (
    LARGEST,
    mixture_from,
    normalised,
    numbers_of,
    require_finished,
    require_own,
)

OURS = Mixture(
    names=("arxiv", "pile_cc"),
    weights=(0.25, 0.75),
    standard_deviation=(0.1, 0.2),
    hdi=((0.1, 0.4), (0.6, 0.9)),
    tokenizer="t",
    data_sha256="d",
)
BARE = Mixture(names=("arxiv", "pile_cc"), weights=(0.25, 0.75))
REGMIX = """\
train:
  train_the_pile_arxiv: 0.25
  train_the_pile_pile_cc: 0.75
valid:
  valid_the_pile_pile_cc: 1.0
model_name: tinyllama_1_1b
"""
DOREMI = json.dumps(
    {
        "train_domain_weights": {"ArXiv": 0.25, "Pile-CC": 0.75},
        "eval_domain_weights": {"ArXiv": 0.5, "Pile-CC": 0.5},
    }
)
CALLED = {
    "regmix": "without 'train_' and 'the_pile_'",
    "regmix, its other prefix": "without 'train_' and 'the_pile_' and 'unzip_'",
    "regmix as json": "without 'train_'",
    "megatron": "by their paths without '/d/'",
    "doremi": "by the short names of the Pile",
}
KINDS = {
    "regmix": REGMIX,
    "regmix, its other prefix": REGMIX.replace("_the_pile_", "_the_pile_unzip_"),
    "regmix as json": json.dumps({"train": {"train_arxiv": 0.25, "train_pile_cc": 0.75}}),
    "megatron": "0.25 /d/arxiv\n0.75 /d/pile_cc\n",
    "doremi": DOREMI,
    "json": '{"arxiv": 0.25, "pile_cc": 0.75}',
    "json with a byte order mark": '\ufeff{"arxiv": 0.25, "pile_cc": 0.75}',
    "yaml": "arxiv: 0.25\npile_cc: 75.0e-02\n",
    "csv": "domain,weight\narxiv,0.25\npile_cc,0.75\n",
    "tsv": "domain\tweight\narxiv\t0.25\npile_cc\t0.75\n",
    "toml": "arxiv = 0.25\npile_cc = 7.5e-1\n",
    "csv of more": '\nsd, Weight ,"Domain"\r\n\r\n9,0.25,arxiv\r\n,0.75, pile_cc \r\n',
}


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "weights.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_known_by_content_and_changed_names_are_said(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, KINDS[kind])
    assert mixture_from(path) == BARE
    called = f"{path}: domains are called {CALLED.get(kind)}: 'arxiv', 'pile_cc'\n"
    assert capsys.readouterr().err == (called if kind in CALLED else "")


def test_ours_keeps_everything(tmp_path: Path) -> None:
    path = write(tmp_path, OURS.to_json())
    assert mixture_from(path) == mixture_from(str(path)) == OURS


def test_doremis_names_are_the_piles_and_others_stay(tmp_path: Path) -> None:
    for text in (
        '{"ArXiv": 0.5, "Github": 0.5}',
        '{"train_domain_weights": {"ArXiv": 0.5, "Github": 0.5}}',
    ):
        own = mixture_from(write(tmp_path, text))
        assert own.names == ("ArXiv", "Github"), "a store of one's own may have these names"
    doremi = '{"train_domain_weights": {"Gutenberg (PG-19)": 0.3, "Books3": 0.3, "Pile-CC": 0.4}}'
    with_books = mixture_from(write(tmp_path, doremi))
    assert with_books.names == ("gutenberg_pg_19", "Books3", "pile_cc")
    with pytest.raises(DataError, match="found 'Books3' in w"):  # a domain that was withdrawn
        with_books.check([*PILE_DOMAINS.values()], "t", "w")


def test_names_and_numbers_that_yaml_would_change(tmp_path: Path) -> None:
    mixture = mixture_from(write(tmp_path, "no: 5e-06\n2020: 0.999995\n1_0: 0\n"))
    assert mixture.as_dict() == {"no": 5e-06, "2020": 0.999995, "1_0": 0.0}


def test_weights_are_normalised_with_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path, '{"a": 1, "b": 3}')
    with pytest.warns(UserWarning, match=r"weights\.txt: the weights sum to 4; they were normal"):
        assert mixture_from(path).weights == (0.25, 0.75)
    # Rounding is none; the numbers stay what they were.
    close = '{"a": 0.3333333, "b": 0.6666666}'
    assert mixture_from(write(tmp_path, close)).weights == (0.3333333, 0.6666666)
    with pytest.warns(UserWarning, match="sum to 9.88131e-324"):
        assert mixture_from(write(tmp_path, "{a: 5e-324, b: 5e-324}")).weights == (0.5, 0.5)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "instead of names with weights"),
        ("name,words\na,b\n", "instead of names with weights: a file of weights holds"),
        ("| domain | words |\n|---|---|\n| a | b |\n", "neither JSON, YAML nor TOML"),
        ("domain,share,ratio\na,1,1\n", "columns share, ratio, of which one is the weight"),
        ("[a\nb = 1", "neither JSON, YAML nor TOML"),
        ("a#500 b#1500", "'a#500 b#1500' instead of names with weights: a file of weights holds"),
        ("- a: 1", "no 'domain' in entry 1, but 'a'"),
        ("{}", "no domain"),
        ('{"": 1}', "one without a name"),
        ('{"train_domain_weights": [1]}', "[1] instead of a mapping under train_domain_weights"),
        ('{"a": -0.5, "b": 1.5}', "-0.5 as the weight of 'a'"),
        ('{"a": 1' + "0" * 5000 + "}", "Exceeds the limit"),
        ("a: .nan", "'.nan' instead of a number as the weight of 'a'"),
        ('{"a": true}', "True instead of a number"),
        ("a: {b: 1}", "'a' with more than a number inside: a file of weights holds"),
        ("law: 60%\nweb: 0.4\n", "percentages beside others: 'law' and 'web'"),
        ("30 path/a not_a_weight path/b", "'not_a_weight' instead of a number as the weight of"),
        ("30 path/a 70", "3 words instead of weights and prefixes in turn"),
        ('{"a": 0, "b": 0.0}', "weights that sum to 0"),
        ('{"a": 1e308, "b": 1e308}', "weights that sum to inf"),
        ('{"a": 0.5, "a": 0.5}', "found 'a' twice"),
        ("domain,weight,weight\na,0.5,0.5\n", "a column twice"),
        ("domain,weight\na,0.5,0.5\n", "rows of other lengths"),
        ('{"a": 0.5', "while parsing a flow mapping"),
        ("[" * 2_000, "maximum recursion depth"),
        ("? [a, b]\n: 1\n", "unhashable key"),
        ("a: !!python/object/apply:os.getcwd []", "'a' with more than a number inside"),
        ("train: &a {a: *a}", "recursive"),
        (b"\x80\x04\x95\x0c\x00.", "can't decode byte 0x80"),
        (b" " * (LARGEST + 1), "more than 2 MB, and no JSON"),
        ('{"format": "bydore_pyro.mixture/2", "weights": {"a": 1}}', "'bydore_pyro.mixture/2'"),
        ('{"format": "bydore_pyro.mixture/1", "weights": {"a": 0.5}}', "sum to 1, actual 0.5"),
        (OURS.to_json().replace("training tokens", "documents"), "found 'shares of documents'"),
        (OURS.to_json().replace('"notes": []', '"notes": "ab"'), "found 'ab'"),
        ("# the weights are shares of documents.\na: 1", "shares of documents instead of tokens"),
    ],
)
def test_what_is_no_weights_is_refused_in_one_line(
    tmp_path: Path, content: str | bytes, found: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataError) as error:
        mixture_from(path)
    assert found in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", Path("a\0b")):
        with pytest.raises(DataError, match="Expected a mixture file, found"):
            mixture_from(str(path))


def test_yaml_cannot_swell(tmp_path: Path) -> None:
    """Aliases of aliases: 9^20 values if they were followed."""
    text = "a0: &a0 [1]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 20)
    )
    with pytest.raises(DataError, match="'a0', 'a1', 'a2', 'a3' and 16 more with more than a num"):
        mixture_from(write(tmp_path, text))


def test_published_weights() -> None:
    published = pile_weights()
    for name, total in (("human", "0.7868"), ("doremi", "0.8148")):
        with pytest.warns(UserWarning, match=f"published:{name}: the weights sum to {total};"):
            mixture = mixture_from(f"published:{name}")
        assert {*mixture.names} == {*PILE_DOMAINS.values()}
        ratio = mixture.as_dict()["pile_cc"] / mixture.as_dict()["arxiv"]
        assert ratio == pytest.approx(published[name]["pile_cc"] / published[name]["arxiv"])
    for name in ("regmix", "token_share"):
        assert mixture_from(f"published:{name}").as_dict() == published[name]
    with pytest.raises(DataError, match=r"one of published:human, .*, found 'published:cats'"):
        mixture_from("published:cats")


PIECES = [b"null", b"-", b"\n", b": ", b"{", b'"', b"1e999", b"*a", b"&a ", b"!!int ", b"\xff"]


@pytest.mark.filterwarnings("ignore:.* the weights sum to")
def test_mutations_give_a_mixture_or_one_line(tmp_path: Path) -> None:
    """30 mutations a kind."""
    rng, path = random.Random(0), tmp_path / "weights"
    read, refused = 0, []
    for content in (OURS.to_json(), *KINDS.values()):
        for _ in range(30):
            path.write_bytes(mutated(content.encode(), rng, PIECES))
            try:
                mixture = mixture_from(path)
            except DataError as error:
                refused.append(str(error))
            else:
                read += 1
                assert sum(mixture.weights) == pytest.approx(1)
                assert all(isinstance(name, str) and name for name in mixture.names)
    assert min(read, len(refused)) > 40, (read, len(refused))
    require_one_line(refused, path)


def test_weights_are_normalised_and_a_runs_folder_is_read(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="here: the weights sum to 4; they were normalised"):
        assert normalised({"a": 3, "b": "1"}, "here").as_dict() == {"a": 0.75, "b": 0.25}
    (tmp_path / "run").mkdir()
    with pytest.raises(RunFolderError, match=r"finished run in .*, found no mixture\.json"):
        mixture_from(tmp_path / "run")
    mixture = Mixture(names=("a", "b"), weights=(0.5, 0.5), standard_deviation=(0.1, 0.1))
    (tmp_path / "run" / "mixture.json").write_text(mixture.to_json())
    assert mixture_from(str(tmp_path / "run")) == mixture
    told = {"mixture_sha256": mixture.sha256}
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(told))
    assert mixture_from(tmp_path / "run") == mixture
    other = Mixture(names=("a", "b"), weights=(0.4, 0.6))
    (tmp_path / "run" / "mixture.json").write_text(other.to_json())
    with pytest.raises(RunFolderError, match=r"metrics\.json names, found another"):
        mixture_from(tmp_path / "run")
    with pytest.raises(RunFolderError, match="found another"):
        require_own(tmp_path / "run")
    assert mixture_from(tmp_path / "run" / "mixture.json") == other, "a file is what it is"


def test_a_run_that_was_stopped_has_no_weights(tmp_path: Path) -> None:
    """Whatever an earlier version left there."""
    (tmp_path / "mixture.json").write_text('{"a": 1}')
    assert mixture_from(tmp_path).names == ("a",)
    (tmp_path / "metrics.json").write_text('{"stopped": "interrupted", "steps": 2}')
    (tmp_path / "config.json").write_text('{"name": "case1"}')
    command = f"python experiments/case1.py --resume {tmp_path} goes on"
    for found in (r"stopped after 2 steps \(interrupted\)", "without a mixture"):
        with pytest.raises(RunFolderError, match=f"found {tmp_path} {found}: {command}"):
            mixture_from(tmp_path)
        (tmp_path / "mixture.json").unlink(missing_ok=True)
        (tmp_path / "metrics.json").unlink(missing_ok=True)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"Expected a finished run in .*, found no mixture"):
        require_finished(tmp_path)


def test_numbers_are_read_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"web": 1000, "law": 2.5e2}')
    assert numbers_of(path) == {"web": 1000.0, "law": 250.0}
    path.write_text('{"web": -1}')
    with pytest.raises(DataError, match=r"numbers of domains in .*tokens\.json"):
        numbers_of(path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train: {train_the_pile_a: 0.5, train_b: 0.5}", ("the_pile_a", "b")),
        ("train: {train_the_pile_a: 0.5, train_the_pile_b: 0.5}", ("the_pile_a", "the_pile_b")),
        ("train: {train_web/law: 0.5, train_web/code: 0.5}", ("web/law", "web/code")),
        ("train_a: 1", ("train_a",)),  # outside of RegMix's section nothing is taken off
        ("{train: 0.5, b: 0.5}", ("train", "b")),  # a domain of that name is no section
    ],
)
def test_prefixes_go_only_where_all_have_them(
    tmp_path: Path, text: str, names: tuple[str, ...]
) -> None:
    assert mixture_from(write(tmp_path, text)).names == names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"law": 70, "web": 30, "seed": 42}', "sum to 142, among them 'seed' (42), which looks"),
        ('{"law": 0.3, "web": 0.7, "lr": 1e-3}', "among them 'lr' (0.001), which looks"),
        ('{"law": 6e10, "web": 1e9, "Max-Epochs": 4}', "among them 'Max-Epochs' (4), which looks"),
        ("made_up: 17\nlaw: 0.333\nweb: 0.667", "among them 'made_up' (17), which looks"),
        ("law: 1e6\nweb: 2e6\neverything: 3e6", "among them 'everything' (3e+06), which looks"),
        ("law: 30\nweb: 70\nSumme: 100", "among them 'Summe' (100), which looks"),
        ("Domain,Weight\nlaw,70\nweb,30\nTotal,90", "among them 'Total' (90), which looks"),
        ("law: 1.0\nweb: 0.25", "at most 1 that sum to 1.25: fractions of sources are no shares"),
    ],
)
def test_what_is_no_domain_or_no_share_is_refused(tmp_path: Path, text: str, found: str) -> None:
    path = write(tmp_path, text)
    for read in (mixture_from, lambda place: mixture_from(str(place))):
        with pytest.raises(DataError) as error:
            read(path)
        assert found in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Domain,Weight\nlaw,30\nweb,70\nTotal,100", "'Total'"),
        ('{"law": 0.3, "web": 0.7, "total": 1.0}', "'total'"),
        ("Domain\tWeight\tNote\nlaw\t30\t-\nweb\t70\t-\nGrand Total\t100\t-", "'Grand Total'"),
        ('{"law": 30, "web": 70, "_missing": 19.6}', "'_missing'"),
        ('{"law": 0.3, "web": 0.7, "_comment": "mine", "_of": ["x"]}', "'_comment', '_of'"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* the weights sum to 100; they were normalised")
def test_comments_and_totals_are_left_out_by_name(
    tmp_path: Path, text: str, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    assert mixture_from(path).as_dict() == {"law": 0.3, "web": 0.7}
    assert capsys.readouterr().err == f"{path}: left out as no domain: {left}\n"


@pytest.mark.parametrize(
    "text",
    [
        "# mine\nlaw,0.3\nweb,0.7\n",
        "domain;weight\n# mine\nlaw;0.3\nweb;0.7\n",
        "# mine\n0.3 law\n0.7 web\n",
    ],
)
def test_lines_that_are_comments_are_left_out_and_said(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    assert mixture_from(path).as_dict() == {"law": 0.3, "web": 0.7}
    assert capsys.readouterr().err == f"{path}: left out as comments: '# mine'\n"


@pytest.mark.parametrize(
    "text",
    [
        "\ufefflaw\t0.3\r\nopen web\t0.7\r\n",
        "\ufeffdomain,weight\r\nlaw,30%\r\nopen web,70%\r\n",
        "law: '0.3'\nopen web: 0.7 # most\n",
        "law = 0.3 # little\n'open web' = '0.7'\n",
        '{"law": 0.3, "open web": 0.7, "code": -0.0}',
    ],
)
def test_what_an_editor_leaves_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "weights"
    path.write_bytes(text.encode())
    shares = {name: share for name, share in mixture_from(path).as_dict().items() if share}
    assert shares == {"law": 0.3, "open web": 0.7}


def test_percentages(tmp_path: Path) -> None:
    assert mixture_from(write(tmp_path, "law: 60%\nweb: 40 %\n")).as_dict() == {
        "law": 0.6,
        "web": 0.4,
    }
    with pytest.warns(UserWarning, match="the weights sum to 80.4; they were normalised"):
        assert mixture_from(write(tmp_path, "law: 60\nweb: 20.4\n")).weights[0] == 60 / 80.4


def test_names_are_those_of_the_data_and_a_part_of_it_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path,
        '[{"name": "1", "path": "o/law", "weight": 0.3}, '
        '{"name": "2", "path": "o/web.en", "weight": 0.7}]',
    )
    names = ["law", "web.en", "code"]
    assert mixture_from(path).names == ("1", "2")
    capsys.readouterr()
    assert mixture_from(path, names=names).as_dict() == {"law": 0.3, "web.en": 0.7}
    assert capsys.readouterr().err.splitlines() == [
        f"{path}: domains are called as in the data: 'law' for '1', 'web.en' for '2'",
        f"{path}: it names 2 of the data's 3 domains; without weight: code",
    ]
    with pytest.raises(DataError, match="which matches 'x/law', 'y/law'"):
        mixture_from(path, names=["x/law", "y/law"])
    ours = write(tmp_path, OURS.to_json())
    renamed = mixture_from(ours, names=["ArXiv", "Pile-CC"])
    assert renamed.names == ("ArXiv", "Pile-CC")
    assert renamed.hdi == OURS.hdi


def test_a_unit_that_the_file_does_not_say(tmp_path: Path) -> None:
    path = write(tmp_path, '{"law": 3, "web": 1}')
    there = {"law": Supply(1000), "web": Supply(3000)}
    assert mixture_from(path, unit="epochs", supply=there).weights == (0.5, 0.5)
    with pytest.raises(DataError, match="shares of tokens, as it says, instead of epochs"):
        mixture_from(write(tmp_path, OURS.to_json()), unit="epochs", supply=there)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ('{"law": 0.3, "seed": 0.5, "2020": 0.2}', {"law": 0.3, "seed": 0.5, "2020": 0.2}),
        ("law: 25\nweb: 25\ncode: 50", {"law": 0.25, "web": 0.25, "code": 0.5}),  # percent
        ("law: 1\nweb: 2\ncode: 1", {"law": 0.25, "web": 0.5, "code": 0.25}),
        ("law: 0.2\nweb: 0.2", {"law": 0.5, "web": 0.5}),  # some domains of a published mixture
        ("train_weights: {law: 1.0, web: 0.25}", {"law": 0.8, "web": 0.2}),  # levanter's are ratios
    ],
)
@pytest.mark.filterwarnings("ignore:.* the weights sum to .*; they were normalised")
def test_domains_of_any_name_and_ratios_stay(
    tmp_path: Path, text: str, weights: dict[str, float]
) -> None:
    assert mixture_from(write(tmp_path, text)).as_dict() == pytest.approx(weights)


def test_a_mixture_of_thousands_of_domains_is_read_as_it_was_written(tmp_path: Path) -> None:
    names = tuple(
        f"crawl/{topic:04}/quality {level}" for topic in range(2000) for level in range(5)
    )
    count = len(names)
    mixture = Mixture(
        names=names,
        weights=(1 / count,) * count,
        standard_deviation=(1e-5 / 3,) * count,
        hdi=((1e-5 / 3, 2e-4 / 3),) * count,
        free_weights=(1 / count,) * count,
    )
    path = write(tmp_path, mixture.to_json())
    assert path.stat().st_size > LARGEST
    assert mixture_from(path) == Mixture.from_json(path) == mixture
    path.write_text(json.dumps({"tokens_by_domain": {name * 20: 7 for name in names}, "seed": 1}))
    assert path.stat().st_size > LARGEST
    assert numbers_of(path, "tokens_by_domain")[names[0] * 20] == 7
