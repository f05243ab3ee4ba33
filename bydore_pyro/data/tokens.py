"""The tokens of named data: a store as it lies on disk, or one that is built in the cache."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import Bar, building_place, prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import TokenStore, check_needed, is_store, open_store
from bydore_pyro.data.tokenizer import TokenizerConfig, save_tokenizer, tokenizer_sha256
from bydore_pyro.utils import DataError, FolderLock

__all__ = ["default_cache", "load_tokens"]

log = logging.getLogger(__name__)


def load_tokens(
    data: str,
    corpus: CorpusConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    rows: RowConfig | None = None,
    *,
    needed: Iterable[str] = (),
    cache: Path | None = None,
    progress: Callable[[str], None] = log.info,
    bar: Bar = lambda done, total, taken: None,
) -> TokenStore:
    """Opens a token store, or reads, tokenizes and caches the named data.

    Args:
        data: The folder of a store, or what `bydore_pyro.data.sources.list_sources` takes:
            ``"environment"``, a folder of domains, a list of domains, ``"pile:FOLDER"``.
        corpus: How documents are made; without effect on a store.
        tokenizer: Which tokenizer. If one is named, a store must have been built with it.
        rows: The columns of rows; without effect on a store.
        needed: Domains that must be among the data's; checked before anything is read, where the
            domains are known by then.
        cache: Where stores are kept; ``$XDG_CACHE_HOME/bydore_pyro`` when None.
        progress: Told what is going on, line by line.
        bar: Told how far it is.

    Raises:
        DataError: When the data does not exist, lacks a needed domain, or a domain has no usable
            text; when a store is damaged or of another tokenizer.
    """
    corpus, tokenizer = corpus or CorpusConfig(), tokenizer or TokenizerConfig()
    if is_store(Path(data)):
        store = open_store(Path(data))
        check_needed(needed, store.names)
        if tokenizer.tokenizer is not None:
            check_tokenizer(store, tokenizer.tokenizer)
        for given in (corpus, rows or RowConfig()):
            for name, value in vars(given).items():
                if value != getattr(type(given)(), name):
                    progress(f"without effect on the token store {data}: {name} {value}")
        return store
    plan = make_plan(data, corpus, rows, tokenizer, progress)
    if all(source.domain is not None or source.domains for source in plan.sources):
        check_needed(needed, plan.domains)
    folder = (cache or default_cache()) / plan.key

    def waiting() -> None:
        progress(f"waiting for another process, which builds {folder}")

    if folder.is_dir():
        with suppress(DataError):
            return open_store(folder)
        with FolderLock(building_place(folder), waiting):
            try:
                return open_store(folder)  # another process may have built it again
            except DataError as error:
                progress(f"cached tokens in {folder} are damaged ({error}): building them again")
                shutil.rmtree(folder, ignore_errors=True)
    progress(f"reading text: {data}")
    try:
        store = prepare(plan, folder, progress=progress, bar=bar, waiting=waiting)
    except DataError:
        if not is_store(folder):
            raise
        store = open_store(folder)  # another process built it while this one waited
    check_needed(needed, store.names)
    return store


def default_cache() -> Path:
    """Returns the user's cache folder for this package."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bydore_pyro"


def check_tokenizer(store: TokenStore, name: str) -> None:
    """Refuses a store that was built with another tokenizer than the one named.

    Raises:
        DataError: When it was, or there is no such tokenizer.
    """
    with tempfile.TemporaryDirectory() as folder:
        save_tokenizer(name, Path(folder))
        found = tokenizer_sha256(Path(folder))
    if found != store.tokenizer_sha256:
        raise DataError(
            f"Expected a store of tokenizer '{name}' ({found[:12]}), found {store.folder} of "
            f"another ({store.tokenizer_sha256[:12]})"
        )
