"""Arrows between modules point down, and the import of the package is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "bydore_pyro"
MODULES = sorted(
    p.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    for p in PACKAGE.rglob("*.py")
    if p.stem != "__init__"
)

DATA = ("documents", "store", "tokenizer")


def data(*names: str) -> set[str]:
    """Modules of the sub-package of that name."""
    return {f"data.{name}" for name in names}


# What each module may import of ours; a module that is missing here fails.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "cost": set(),
    "files": {"errors"},
    "density": set(),
    "distribution": {"density"},
    "hypergradient": set(),
    "prior_net": {"errors"},
    "scheduling": set(),
    "arviz_import": set(),
    "mixture": {"errors", "files"},
    "guide": {"distribution", "prior_net"},
    "elbo": {"distribution", "guide"},
    "data.pile": set(),
    "data.permutation": set(),
    "data.rows": {"errors"},
    "data.documents": {"errors", "data.rows"},
    "data.environment": {"data.documents", "data.rows"},
    "data.sources": {
        "files",
        "data.documents",
        "data.environment",
        "errors",
        "data.pile",
        "data.rows",
    },
    "data.tokenizer": {"errors"},
    "data.store": {"errors", "data.tokenizer"},
    "data.plan": {"data.documents", "data.rows", "data.sources", "data.store", "data.tokenizer"},
    "data.encode": {"data.tokenizer"},
    "data.build": data(*DATA, "plan", "encode", "sources") | {"errors", "files"},
    "data.prepare": data("build", "encode", "plan", "store", "tokenizer") | {"errors", "files"},
    "data.tokens": data(*DATA, "plan", "prepare", "rows") | {"errors"},
    "command_line": {"errors", "files"},
    "options": {"data.documents", "data.rows", "data.tokenizer", "parallel", "prior_net", "proxy"}
    | {"search_config"},
    "agreement": {"mixture"},
    "report": {"errors", "mixture"},
    "run": {
        *("checkpoint", "command_line", "data.store", "data.tokens", "diagnostics", "domains"),
        *("errors", "files", "mixture", "options", "plots", "proxy", "run_folder", "search"),
    },
    "published": set(),
    "weights_files": {"data.pile", "errors", "files", "mixture", "published"},
    "baselines.problem": {"cost", "data.store", "domains", "errors", "mixture", "proxy"},
    "baselines.proxy_runs": {
        *("baselines.problem", "domains", "errors", "files", "parallel", "proxy", "verification"),
    },
    "baselines.fixed": {"baselines.problem", "errors", "mixture", "weights_files"},
    "baselines.doremi": {
        *("baselines.problem", "baselines.proxy_runs", "errors", "proxy"),
        "scheduling",
    },
    "baselines.regression_input": {"errors"},
    "baselines.gaussian_process": {"baselines.regression_input"},
    "baselines.regression": {"baselines.gaussian_process", "baselines.regression_input", "errors"},
    "baselines.runs_table": {"errors"},
    "baselines.regmix": {
        *("arviz_import", "baselines.gaussian_process", "baselines.problem"),
        *(
            "baselines.proxy_runs",
            "errors",
            "baselines.regression",
            "baselines.regression_input",
            "baselines.runs_table",
            "mixture",
        ),
        "weights_files",
    },
    "baselines.power_laws": set(),
    "baselines.autoscale": {
        *("baselines.power_laws", "baselines.problem", "baselines.proxy_runs", "errors"),
    },
    "baselines.mde": {"baselines.problem", "baselines.proxy_runs"},
    "methods": {
        *(f"baselines.{n}" for n in ("autoscale", "doremi", "fixed", "mde", "problem", "regmix")),
        *("domains", "mixture", "options", "run"),
    },
    "export.shares": {"errors"},
    "export.config_files": {"errors", "export.shares"},
    "export.python_files": {"export.shares"},
    "export.formats": {"errors", "export.config_files", "export.python_files", "export.shares"},
    "export.export": {"errors", "export.formats", "export.shares", "mixture"},
    "export.tokens_per_byte": {"data.store", "data.tokenizer", "errors", "mixture"},
    "commands.prepare_command": data(*DATA, "plan", "prepare", "rows") | {"command_line"},
    "commands.search_command": {
        *("agreement", "command_line", "html_report", "mixture", "options", "parallel", "report"),
        "run",
    },
    "commands.fit_command": {
        *("baselines.problem", "baselines.regmix", "baselines.runs_table", "command_line", "cost"),
        *(
            "diagnostics",
            "html_report",
            "methods",
            "options",
            "parallel",
            "report",
            "run",
            "run_folder",
        ),
    },
    "report_page.words": set(),
    "report_page.thresholds": set(),
    "report_page.run_record": {"errors", "mixture"},
    "report_page.verdicts": {f"report_page.{n}" for n in ("run_record", "thresholds", "words")},
    "report_page.drawing": {"colours", "report_page.words"},
    "report_page.report_figures": {
        f"report_page.{n}" for n in ("drawing", "run_record", "verdicts", "words")
    },
    "report_page.comparison_figures": {
        f"report_page.{n}" for n in ("drawing", "run_record", "words")
    },
    "report_page.run_sections": {
        f"report_page.{n}" for n in ("drawing", "run_record", "verdicts", "words")
    },
    "report_page.comparison": {
        f"report_page.{n}" for n in ("drawing", "run_record", "run_sections", "verdicts", "words")
    },
    "report_page.page_frame": {"report_page.words"},
    "report_page.run_page": {
        *(f"report_page.{n}" for n in ("drawing", "page_frame", "report_figures", "run_record")),
        *(f"report_page.{n}" for n in ("run_sections", "verdicts", "words")),
    },
    "report_page.comparison_page": {
        *(f"report_page.{n}" for n in ("comparison", "comparison_figures", "drawing")),
        *(f"report_page.{n}" for n in ("page_frame", "run_record", "verdicts", "words")),
    },
    "html_report": {
        *("errors", "run_folder"),
        *(f"report_page.{n}" for n in ("comparison_page", "page_frame", "run_page", "run_record")),
    },
    "commands.report_command": {"command_line", "errors", "files", "html_report", "report"},
    "commands.export_command": {
        *("command_line", "data.store", "data.tokenizer", "errors", "export.export"),
        *("export.formats", "export.shares", "export.tokens_per_byte", "files", "mixture"),
        "weights_files",
    },
    "task_files": {"errors"},
    "evaluation_data": {"errors"},
    "evaluation_tasks": {"errors", "evaluation_data", "task_files"},
    "evaluation_scores": {"errors", "evaluation_tasks", "task_files"},
    "evaluation_table": {"evaluation_data", "published"},
    "evaluation": {
        *("errors", "evaluation_data", "evaluation_scores", "evaluation_table"),
        *("evaluation_tasks", "parallel", "task_files"),
    },
    "commands.evaluate_command": {
        *("command_line", "errors", "evaluation", "files", "run_folder"),
    },
    "target.mixture_schedule": {"errors", "files", "mixture", "options", "weights_files"},
    "target.mixture_order": {"target.mixture_schedule"},
    "target.mixture_dataset": {
        *("data.store", "domains", "errors", "target.mixture_order", "target.mixture_schedule"),
    },
    "target.target_config": {"errors", "options"},
    "target.trainer_checkpoints": {
        *("data.store", "errors", "target.mixture_schedule", "target.target_config"),
    },
    "target.training_checks": {
        *("data.store", "errors", "target.mixture_dataset", "target.mixture_schedule"),
    },
    "target.training_plan": {
        *("data.store", "data.tokenizer", "parallel", "proxy", "target.mixture_dataset"),
        *("target.mixture_schedule", "target.target_config", "target.trainer_checkpoints"),
        "target.training_checks",
    },
    "target.sequential_trainer": {
        *("data.store", "errors", "proxy", "run_folder", "target.trainer_checkpoints"),
        "target.training_plan",
    },
    "target.training": {
        *("data.store", "files", "run_folder", "target.mixture_schedule"),
        *("target.sequential_trainer", "target.target_config", "target.trainer_checkpoints"),
        "target.training_plan",
    },
    "commands.train_command": {
        *("command_line", "data.store", "errors", "options", "parallel"),
        *("target.mixture_schedule", "target.target_config", "target.training"),
    },
    "cli": {"command_line"},
    "__main__": {"cli"},
    "domains": {"errors", "data.permutation", "data.store"},
    "token_losses": set(),
    "parallel": set(),
    "proxy": {"cost", "errors", "hypergradient", "parallel", "token_losses"},
    "verification": {"domains", "errors", "proxy", "scheduling"},
    "search_config": {"errors", "scheduling"},
    "learner": {"distribution", "elbo", "guide", "prior_net", "search_config"},
    "point_learners": {"learner", "prior_net", "search_config"},
    "evidence": {"domains", "hypergradient", "proxy", "search_config"},
    "search": {
        *("domains", "errors", "evidence", "hypergradient", "learner", "point_learners"),
        *("prior_net", "proxy", "scheduling", "search_config"),
    },
    "tensor_tree": set(),
    "checkpoint": {"files", "search", "tensor_tree"},
    "diagnostics": {
        "arviz_import",
        "distribution",
        "errors",
        "guide",
        "learner",
        "mixture",
        "search",
    },
    "colours": {"data.environment", "data.pile"},
    "plots": {"arviz_import", "colours", "diagnostics"},
    "run_folder": {"errors", "files"},
}
KNOWS_PYRO = {"distribution", "guide", "elbo", "learner", "diagnostics"}
HEAVY = ("transformers", "datasets", "arviz", "matplotlib", "xarray", "tokenizers", "lm_eval")
HEAVY += ("plotly", "jinja2", "sklearn", "lightgbm")


def imports(module: str) -> tuple[set[str], set[str]]:
    """Returns our modules and the outside packages that a module imports, wherever it does so."""
    ours, outside = set(), set()
    for node in ast.walk(ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            first, _, rest = node.module.partition(".")
            if first == "bydore_pyro":
                ours.add(rest)
            else:
                outside.add(first)
        elif isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
    return ours, outside


@pytest.mark.parametrize("module", MODULES)
def test_arrows_point_down(module: str) -> None:
    ours, outside = imports(module)
    assert ours <= ALLOWED[module]
    assert ("pyro" in outside) == (module in KNOWS_PYRO)
    assert not outside & {"experiments", "figures", "tests", "common"}


def test_there_is_no_cycle() -> None:
    done: set[str] = set()
    while rest := set(ALLOWED) - done:
        ready = {m for m in rest if ALLOWED[m] <= done}
        assert ready, f"a cycle among {rest}"
        done |= ready


def _imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert not _imported_by("import bydore_pyro") & {*HEAVY, "torch", "pyro"}


def test_the_probabilistic_core_needs_torch_and_pyro_alone() -> None:
    core = "from bydore_pyro import GammaDirichlet, MixtureGuide, HypergradientELBO"
    assert not _imported_by(core) & set(HEAVY)
