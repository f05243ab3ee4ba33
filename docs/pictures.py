"""A hook of mkdocs: the pictures of `figures/` become part of the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FIGURES = Path(__file__).resolve().parents[1] / "figures"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every picture as `figures/NAME.png`."""
    for path in sorted(FIGURES.glob("*.png")):
        files.append(File.generated(config, f"figures/{path.name}", abs_src_path=str(path)))
    return files
