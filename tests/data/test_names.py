"""Names of domains."""

from __future__ import annotations

from bydore_pyro.data.names import check_name, domain_of


def test_a_name_of_a_hive_becomes_a_domain() -> None:
    check_name(domain_of("cluster=1/quality=0"))
