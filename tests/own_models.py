"""Models of one's own, as Hugging Face saves them: what a search measured, and its branches."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from quick import PROXY
from torch import Tensor

from bydore_pyro.data.store import open_store
from bydore_pyro.files.trees import read_tree
from bydore_pyro.proxy.language_model import build_language_model


def saved(folder: Path, store: Path, parameters: Mapping[str, Tensor]) -> Path:
    """Saves the small proxy with these parameters, and the store's tokenizer beside it."""
    model = build_language_model(PROXY, open_store(store).vocabulary)
    model.load_state_dict(dict(parameters))
    model.save_pretrained(folder)
    shutil.copy(open_store(store).tokenizer / "tokenizer.json", folder)
    return folder


def models_of_branches(run: Path, store: Path, out: Path) -> list[Path]:
    """Saves the model of a run's last round, and then that of each of its branches."""
    last = sorted(run.glob("measured-*"))[-1]
    theta = read_tree(last)[1]["parameters"]
    found = [saved(out / "base", store, theta)]
    for folder in sorted(run.glob("branch-*")):
        branch = read_tree(folder)[1]
        after = {name: value + branch["change"][name].float() for name, value in theta.items()}
        found.append(saved(out / f"on-{'-'.join(branch['domains'])}", store, after))
    return found
