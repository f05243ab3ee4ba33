"""Tables of domains between any delimiters."""

from __future__ import annotations

import pytest

from bydore_pyro.mixture.listed import Listed
from bydore_pyro.mixture.sheets import column_of, sheets_of, weights_of_sheet

WEIGHTS = {"law": "0.3", "web": "0.7"}


@pytest.mark.parametrize(
    "text",
    [
        "domain,weight\nlaw,0.3\nweb,0.7\n",
        "source,ratio\nlaw,0.3\nweb,0.7\n",
        "what we take;how much\nlaw;0.3\nweb;0.7\n",
        "law,0.3\nweb,0.7\n",
        "law 0.3\nweb   0.7\n",
        "law\t0.3\nweb\t0.7\n",
        "| domain | weight |\n|:---|---:|\n| law | 0.3 |\n| web | 0.7 |\n",
        "Tokens,Domain,Weight\n5,law,0.3\n6,web,0.7\n",
        "domain,share,tokens,epochs\nlaw,0.3,1,1\nweb,0.7,2,2\n",
    ],
)
def test_tables_as_people_have_them(text: str) -> None:
    assert weights_of_sheet(text) == Listed(WEIGHTS, declared=False)


def test_a_table_of_epochs_says_so() -> None:
    assert weights_of_sheet("domain,epochs\nlaw,2\nweb,1\n") == Listed(
        {"law": "2", "web": "1"}, declared=False, unit="epochs"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "law: 0.3\nweb: 0.7\n",
        '{"a": 1}',
        "[1, 2]",
        "{a: 1, b: 2}",
        "30 a\n70 b\n",
        "a,b\nc,d\n",
    ],
)
def test_what_is_no_table_is_left_to_others(text: str) -> None:
    assert weights_of_sheet(text) is None


def test_tables_that_can_be_read_in_two_ways() -> None:
    with pytest.raises(ValueError, match="columns share, ratio, of which one is the weight"):
        weights_of_sheet("domain,share,ratio\na,1,2\n")
    (rows,) = sheets_of("domain,weight,weight\na,1,2\n")
    with pytest.raises(ValueError, match="a column twice"):
        column_of(rows, "domain", "weight")
