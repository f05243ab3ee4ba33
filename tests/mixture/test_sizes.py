"""What a user states of the size of a corpus is read, matched and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.sizes import as_entries, supply_from
from bydore_pyro.mixture.units import Supply


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "sizes"
    path.write_bytes(text.encode())
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        "law: 130M\nopen web: {tokens: 1.3T, documents: 2B}",
        '{"law": 1.3e8, "open web": {"tokens": 1300000000000, "documents": 2e9}}',
        "law = 130_000_000\n['open web']\ntokens = '1.3T'\ndocuments = 2e9\n",
        "\ufeffdomain,tokens,documents\r\nlaw,130M,\r\nopen web,1.3e12,2000000000\r\n",
        "# mine\nDomain\tTokens\tDocuments\nlaw\t130M\t\nopen web\t1.3T\t2B\n",
        "_of: {date: now}\nlaw: 0.13B\nopen web: {tokens: 1.3t, documents: 2B} # all\n",
    ],
)
def test_a_file(tmp_path: Path, text: str) -> None:
    found = supply_from([write(tmp_path, text)])
    assert found == {"law": Supply(1.3e8), "open web": Supply(1.3e12, 2e9)}


@pytest.mark.parametrize(
    "text", ["law,130M\nweb,1.3T\n", "law\t130M\nweb\t1.3T\n", "law 130M\nweb 1.3T"]
)
def test_two_columns(tmp_path: Path, text: str) -> None:
    assert supply_from([write(tmp_path, text)]) == {"law": Supply(1.3e8), "web": Supply(1.3e12)}


def test_entries_beside_a_file_and_what_is_kept_of_them(tmp_path: Path) -> None:
    entries = [write(tmp_path, "web: 1234567890123"), "a=b=30M"]
    assert supply_from(entries) == {"web": Supply(1234567890123), "a=b": Supply(3e7)}
    kept = as_entries(entries)
    assert kept == ["web=1234567890123", "a=b=30000000"]
    Path(entries[0]).unlink()
    assert as_entries(kept) == kept, "also when the file is gone"
    assert as_entries([]) == []


def test_names_are_those_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [write(tmp_path, "corpus/Web: 3\nlaw: 1\nmore: 9")]
    assert [*supply_from(given, ["web", "law"])] == ["web", "law", "more"]
    assert capsys.readouterr().err.splitlines() == [
        "--domain_tokens: domains are called as in the data: 'web' for 'corpus/Web'",
        "--domain_tokens: not among the domains: more",
    ]
    with pytest.raises(DataError, match="found 'law', which matches 'a/law', 'b/law'"):
        supply_from(given, ["a/law", "b/law"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("law: 0", "found: '0' instead of a number above 0, such as 1.3T, of 'law'"),
        ("law: -3", "'-3' instead of a number above 0"),
        ('{"law": NaN}', "nan instead of a number above 0"),
        ('{"law": 1e999}', "inf instead of a number above 0"),
        ('{"law": true}', "True instead of a number above 0"),
        ("law: 60%", "'60%' instead of a number above 0"),
        ("law: many", "'many' instead of a number above 0"),
        ("law: {tokens: 3, documents: 0.0}", "'0.0' instead of a number above 0"),
        ("law: {documents: 3}", "no 'tokens' of 'law'"),
        ("law: 1\nlaw: 2", "'law' twice"),
        ("[1, 2]", "instead of names with tokens"),
        ("{}", "found: no domain"),
        ("", "instead of names with tokens"),
    ],
)
def test_what_is_no_size(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        supply_from([write(tmp_path, text)])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["none.yaml"], "Expected tokens of domains in none.yaml, found: .*No such file"),
        (["web=1B", "web=2B"], "with --domain_tokens, found: .*'web' twice"),
        (["web=much"], "NAME=TOKENS or a file .*, found 'web=much': 'much' instead of a number"),
        (["=3"], "found '=3': no name"),
    ],
)
def test_what_is_no_entry(entries: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        supply_from(entries)
