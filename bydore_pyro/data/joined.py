"""Two token stores as one: the text of a search, and domains that came later."""

from __future__ import annotations

import dataclasses

from bydore_pyro.data.store import TokenStore, sha256_of
from bydore_pyro.utils import DataError

__all__ = ["joined_stores"]


def joined_stores(store: TokenStore, added: TokenStore) -> TokenStore:
    """Returns a store with the domains of another too, which replace those of the same name.

    Raises:
        DataError: When the other was built with another tokenizer.
    """
    if added.tokenizer_sha256 != store.tokenizer_sha256:
        raise DataError(
            f"Expected tokens of the tokenizer in {store.folder} "
            f"({store.tokenizer_sha256[:12]}), found others in {added.folder} "
            f"({added.tokenizer_sha256[:12]}): bydore prepare --tokenizer {store.tokenizer}"
        )
    domains = dict(sorted({**store.index["domains"], **added.index["domains"]}.items()))
    sha256 = sha256_of(domains, store.tokenizer_sha256, store.vocabulary, store.index["dtype"])
    return dataclasses.replace(
        store,
        train=dict(sorted({**store.train, **added.train}.items())),
        validation=dict(sorted({**store.validation, **added.validation}.items())),
        train_documents={**store.train_documents, **added.train_documents},
        validation_documents={**store.validation_documents, **added.validation_documents},
        index={**store.index, "domains": domains, "sha256": sha256},
        files={**store.files, **added.files},
    )
