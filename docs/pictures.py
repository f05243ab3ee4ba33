"""A hook of mkdocs: the pictures and results of `figures/` become part of the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FIGURES = Path(__file__).resolve().parents[1] / "figures"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every picture as `figures/NAME.png`, every result as `figures/results/NAME`."""
    results = (FIGURES / "results").rglob("*.json")
    for path in sorted([*FIGURES.glob("*.png"), *results]):
        name = path.relative_to(FIGURES.parent).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
