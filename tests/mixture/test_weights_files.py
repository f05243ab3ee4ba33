"""Weights that others wrote: every kind, every mistake, and thousands of mutated files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from mutations import mutated

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.published import PILE_DOMAINS, pile_weights
from bydore_pyro.mixture.weights_files import (
    LARGEST,
    mixture_from,
    normalised,
    numbers_of,
    require_finished,
    require_own,
)
from bydore_pyro.utils.errors import DataError, RunFolderError

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
KINDS = {
    "regmix": REGMIX,
    "regmix, its other prefix": REGMIX.replace("_the_pile_", "_the_pile_unzip_"),
    "regmix, names alone": REGMIX.replace("train_the_pile_", ""),
    "regmix as json": json.dumps({"train": {"train_arxiv": 0.25, "train_pile_cc": 0.75}}),
    "doremi": DOREMI,
    "doremi, yaml": "train_domain_weights:\n  ArXiv: 0.25\n  Pile-CC: 0.75\n",
    "json": '{"arxiv": 0.25, "pile_cc": 0.75}',
    "json with a byte order mark": '\ufeff{"arxiv": 0.25, "pile_cc": 0.75}',
    "yaml": "arxiv: 0.25\npile_cc: 75.0e-02\n",
    "yaml in one line": "{arxiv: .25, pile_cc: 0.75}",
    "csv": "domain,weight\narxiv,0.25\npile_cc,0.75\n",
    "csv of more": '\nsd, Weight ,"Domain"\r\n\r\n9,0.25,arxiv\r\n,0.75, pile_cc \r\n',
}


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "weights.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_told_by_content(tmp_path: Path, kind: str) -> None:
    assert mixture_from(write(tmp_path, KINDS[kind])) == BARE


def test_ours_keeps_everything(tmp_path: Path) -> None:
    path = write(tmp_path, OURS.to_json())
    assert mixture_from(path) == mixture_from(str(path)) == OURS


def test_doremis_names_are_the_piles_and_others_stay(tmp_path: Path) -> None:
    own = mixture_from(write(tmp_path, '{"ArXiv": 0.5, "Github": 0.5}'))
    assert own.names == ("ArXiv", "Github"), "a store of one's own may have these names"
    doremi = '{"train_domain_weights": {"Gutenberg (PG-19)": 0.5, "Books3": 0.5}}'
    with_books = mixture_from(write(tmp_path, doremi))
    assert with_books.names == ("gutenberg_pg_19", "Books3")
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
        ("name,weight\na,1\n", "instead of names with weights"),
        ("- a: 1", "[{'a': '1'}] instead of names with weights"),
        ("{}", "no domain"),
        ('{"": 1}', "one without a name"),
        ('{"train_domain_weights": [1]}', "[1] instead of names with weights"),
        ('{"a": -0.5, "b": 1.5}', "-0.5 as the weight of 'a'"),
        ('{"a": NaN}', "nan as the weight of 'a'"),
        ('{"a": 1' + "0" * 5000 + "}", "Exceeds the limit"),
        ("a: .nan", "'.nan' instead of a number as the weight of 'a'"),
        ('{"a": true}', "True instead of a number"),
        ("a: {b: 1}", "{'b': '1'} instead of a number"),
        ('{"a": 0, "b": 0.0}', "weights that sum to 0"),
        ('{"a": 1e308, "b": 1e308}', "weights that sum to inf"),
        ('{"a": 0.5, "a": 0.5}', "found 'a' twice"),
        ("domain,weight\na,0.5\na,0.5\n", "found 'a' twice"),
        ("domain,weight,weight\na,0.5,0.5\n", "a column twice"),
        ("domain,weight\na,0.5,0.5\n", "rows of other lengths"),
        ('{"a": 0.5', "while parsing a flow mapping"),
        ("[" * 2_000, "maximum recursion depth"),
        ("? [a, b]\n: 1\n", "unhashable key"),
        ("a: !!python/object/apply:os.getcwd []", "[] instead of a number"),
        ("train: &a {a: *a}", "recursive"),
        (b"\x80\x04\x95\x0c\x00.", "can't decode byte 0x80"),
        (b" " * (LARGEST + 1), "more than 2 MB"),
        ('{"format": "bydore_pyro.mixture/2", "weights": {"a": 1}}', "'bydore_pyro.mixture/2'"),
        ('{"format": "bydore_pyro.mixture/1", "weights": {"a": 0.5}}', "sum to 1, actual 0.5"),
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
    with pytest.raises(DataError, match="instead of a number"):
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
    assert min(read, len(refused)) > 60
    assert all(told.startswith("Expected ") and str(path) in told for told in refused)
    assert not any("\n" in told for told in refused)


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
    with pytest.raises(RunFolderError, match=r"metrics\.json tells of, found another"):
        mixture_from(tmp_path / "run")
    with pytest.raises(RunFolderError, match="found another"):
        require_own(other, tmp_path / "run")
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
    for wrong in ('{"web": -1}', "{}", '{"format": "bydore_pyro.mixture/1"}'):
        path.write_text(wrong)
        with pytest.raises(DataError, match=r"numbers of domains in .*tokens\.json"):
            numbers_of(path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train: {train_the_pile_a: 0.5, train_b: 0.5}", ("the_pile_a", "b")),
        ("train: {train_a: 0.5, b: 0.5}", ("train_a", "b")),
        ("train: {train_web/law: 0.5, train_web/code: 0.5}", ("web/law", "web/code")),
        ("train_a: 1", ("train_a",)),  # outside of RegMix's section nothing is taken off
        ("{train: 0.5, b: 0.5}", ("train", "b")),  # a domain of that name is no section
    ],
)
def test_prefixes_go_only_where_all_have_them(
    tmp_path: Path, text: str, names: tuple[str, ...]
) -> None:
    assert mixture_from(write(tmp_path, text)).names == names
