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

# Every module may import these.
BASE = {"errors", "config_checks", "extras"}
# What each module imports of ours beside them, from the bottom to the top; a module that is missing
# here fails, and so does an arrow that is not.
ALLOWED: dict[str, set[str]] = {
    "arviz_import": set(),
    "baselines.power_laws": set(),
    "config_checks": set(),
    "cost": set(),
    "data.permutation": set(),
    "data.pile": set(),
    "density": set(),
    "devices": set(),
    "errors": set(),
    "freed_memory": set(),
    "hypergradient": set(),
    "matching": set(),
    "published": set(),
    "report_page.thresholds": set(),
    "report_page.words": set(),
    "scheduling": set(),
    "tensor_tree": set(),
    "token_losses": set(),
    "baselines.regression_input": set(),
    "baselines.csv_table": set(),
    "baselines.kernel_posterior": set(),
    "baselines.runs_table": {"baselines.csv_table"},
    "data.rows": set(),
    "data.tokenizer": set(),
    "distribution": {"density"},
    "evaluation_data": set(),
    "export.shares": set(),
    "extras": set(),
    "files": set(),
    "prior_net": set(),
    "report_page.page_frame": {"report_page.words"},
    "search_config": {"scheduling"},
    "target.target_config": set(),
    "task_files": set(),
    "command_line": {"files"},
    "data.pieces": {"data.rows"},
    "data.encode": {"data.tokenizer"},
    "data.store": {"data.tokenizer"},
    "evaluation_table": {"evaluation_data", "published"},
    "evaluation_tasks": {"evaluation_data", "task_files"},
    "export.config_files": {"export.shares"},
    "export.python_files": {"export.shares"},
    "guide": {"distribution", "prior_net"},
    "mixture": {"files"},
    "parallel": set(),
    "run_folder": {"files"},
    "agreement": {"mixture"},
    "baselines.gaussian_process": {
        *("baselines.kernel_posterior", "baselines.regression_input", "mixture"),
    },
    "cli": {"command_line"},
    "data.documents": {"data.pieces", "data.rows"},
    "data.environment": {"data.documents", "data.rows"},
    "domains": {"data.permutation", "data.store"},
    "elbo": {"distribution", "guide"},
    "evaluation_scores": {"evaluation_tasks", "task_files"},
    "export.formats": {"export.config_files", "export.python_files", "export.shares"},
    "export.tokens_per_byte": {"data.store", "data.tokenizer", "mixture"},
    "proxy": {"cost", "hypergradient", "parallel", "token_losses"},
    "gradients": {"hypergradient", "proxy"},
    "report": {"mixture", "report_page.matching_words", "report_page.run_record"},
    "report_page.run_record": {"mixture"},
    "weights_files": {"data.pile", "files", "mixture", "published"},
    "__main__": {"cli"},
    "baselines.problem": {"cost", "data.store", "domains", "mixture", "proxy"},
    "baselines.regression": {"baselines.gaussian_process", "baselines.regression_input"},
    "colours": {"data.environment", "data.pile"},
    "data.sources": {
        *("data.documents", "data.environment", "data.pieces", "data.pile", "data.rows", "files"),
    },
    "evaluation": {
        *("devices", "evaluation_data", "evaluation_scores", "evaluation_table"),
        *("evaluation_tasks", "parallel", "task_files"),
    },
    "evidence": {"domains", "hypergradient", "proxy", "search_config"},
    "export.export": {"export.formats", "export.shares", "mixture"},
    "search_state": {"domains", "proxy", "search_config"},
    "residual_check": {"domains", "gradients", "hypergradient", "matching"},
    "importance": {"arviz_import"},
    "inference": {"elbo", "guide"},
    "learner": {"distribution", "elbo", "guide", "prior_net", "search_config"},
    "options": {
        *("data.documents", "data.rows", "data.tokenizer", "devices", "parallel"),
        *("prior_net", "proxy", "search_config"),
    },
    "report_page.matching_words": {
        *("report_page.run_record", "report_page.thresholds", "report_page.words"),
    },
    "report_page.matching_verdicts": {
        *("report_page.matching_words", "report_page.run_record", "report_page.thresholds"),
        *("report_page.words",),
    },
    "report_page.regression_verdicts": {
        *("report_page.run_record", "report_page.thresholds", "report_page.words"),
    },
    "report_page.verdicts": {
        *("report_page.matching_verdicts", "report_page.regression_verdicts"),
        *("report_page.run_record", "report_page.thresholds", "report_page.words"),
    },
    "target.mixture_schedule": {"files", "mixture", "weights_files"},
    "verification": {"domains", "proxy", "scheduling"},
    "baselines.fixed": {"baselines.problem", "mixture", "weights_files"},
    "baselines.proxy_runs": {
        *("baselines.problem", "domains", "files", "parallel", "proxy", "verification"),
    },
    "baselines.simulated_optimum": {
        *("baselines.gaussian_process", "baselines.regression"),
        *("baselines.regression_input", "mixture"),
    },
    "commands.evaluate_command": {"command_line", "evaluation", "files", "run_folder"},
    "commands.export_command": {
        *("command_line", "data.store", "data.tokenizer", "export.export"),
        *("export.formats", "export.shares", "export.tokens_per_byte", "files", "mixture"),
        *("weights_files",),
    },
    "data.plan": {
        *("data.documents", "data.rows", "data.sources", "data.store", "data.tokenizer"),
    },
    "matching_learners": {
        *("distribution", "guide", "inference", "learner", "matching", "prior_net"),
        *("search_config",),
    },
    "plots": {"arviz_import", "colours", "mixture"},
    "point_learners": {"learner", "prior_net", "search_config"},
    "report_page.drawing": {"colours", "report_page.words"},
    "resuming": {"command_line", "options", "run_folder"},
    "target.mixture_order": {"target.mixture_schedule"},
    "target.trainer_checkpoints": {
        *("data.store", "proxy", "target.mixture_schedule", "target.target_config"),
    },
    "baselines.autoscale": {
        *("baselines.power_laws", "baselines.problem", "baselines.proxy_runs"),
    },
    "baselines.autoscale_table": {
        *("baselines.autoscale", "baselines.power_laws", "baselines.problem"),
        *("baselines.runs_table", "mixture"),
    },
    "baselines.doremi": {
        "baselines.problem",
        "baselines.proxy_runs",
        "parallel",
        "proxy",
        "scheduling",
    },
    "baselines.mde": {"baselines.problem", "baselines.proxy_runs"},
    "baselines.regmix": {
        *("baselines.problem", "baselines.proposal", "baselines.proxy_runs"),
        *("baselines.regression", "baselines.runs_table", "baselines.simulated_optimum"),
        *("mixture", "weights_files"),
    },
    "baselines.proposal": {
        *("arviz_import", "baselines.gaussian_process", "baselines.regression"),
        *("baselines.simulated_optimum", "mixture"),
    },
    "data.build": {
        *("data.documents", "data.encode", "data.plan", "data.sources", "data.store"),
        *("data.tokenizer", "files"),
    },
    "report_page.comparison_figures": {
        *("report_page.drawing", "report_page.run_record", "report_page.words"),
    },
    "report_page.report_figures": {
        *("report_page.drawing", "report_page.matching_words", "report_page.run_record"),
        *("report_page.verdicts", "report_page.words"),
    },
    "report_page.run_sections": {
        *("report_page.drawing", "report_page.matching_words", "report_page.run_record"),
        *("report_page.regression_verdicts", "report_page.verdicts", "report_page.words"),
    },
    "linear_search": {
        *("domains", "evidence", "hypergradient", "learner", "point_learners", "prior_net"),
        *("proxy", "scheduling", "search_config", "search_state"),
    },
    "matching_search": {
        *("domains", "freed_memory", "gradients", "learner", "matching", "matching_learners"),
        *("prior_net", "proxy", "residual_check", "scheduling", "search_config", "search_state"),
    },
    "search": {
        *("domains", "freed_memory", "linear_search", "matching_search", "prior_net", "proxy"),
        *("search_config", "search_state"),
    },
    "target.mixture_dataset": {
        *("data.store", "domains", "target.mixture_order", "target.mixture_schedule"),
    },
    "checkpoint": {"files", "search_state", "tensor_tree"},
    "data.prepare": {
        *("data.build", "data.encode", "data.plan", "data.store", "data.tokenizer"),
        *("files",),
    },
    "diagnostics": {
        *("arviz_import", "distribution", "guide", "importance", "learner", "linear_search"),
        *("matching_learners", "matching_search", "mixture", "search_state"),
    },
    "report_page.comparison": {
        *("mixture", "report_page.drawing", "report_page.run_record"),
        *("report_page.run_sections", "report_page.verdicts", "report_page.words"),
    },
    "report_page.run_page": {
        *("report_page.drawing", "report_page.matching_words", "report_page.page_frame"),
        *("report_page.report_figures", "report_page.run_record", "report_page.run_sections"),
        *("report_page.verdicts", "report_page.words"),
    },
    "target.training_checks": {
        *("data.store", "target.mixture_dataset", "target.mixture_schedule"),
    },
    "commands.prepare_command": {
        *("command_line", "data.documents", "data.plan", "data.prepare", "data.rows"),
        *("data.store", "data.tokenizer"),
    },
    "data.tokens": {
        *("data.documents", "data.plan", "data.prepare", "data.rows", "data.store"),
        *("data.tokenizer",),
    },
    "report_page.comparison_page": {
        *("report_page.comparison", "report_page.comparison_figures"),
        *("report_page.drawing", "report_page.page_frame", "report_page.run_record"),
        *("report_page.verdicts", "report_page.words"),
    },
    "target.training_plan": {
        *("data.store", "data.tokenizer", "parallel", "proxy", "target.mixture_dataset"),
        *("target.mixture_schedule", "target.target_config", "target.trainer_checkpoints"),
        *("target.training_checks",),
    },
    "html_report": {
        *("report_page.comparison_page", "report_page.page_frame", "report_page.run_page"),
        *("report_page.run_record", "run_folder"),
    },
    "run_data": {"command_line", "data.store", "data.tokens", "domains", "mixture", "options"},
    "target.sequential_trainer": {
        *("data.store", "proxy", "run_folder", "target.trainer_checkpoints"),
        *("target.training_plan",),
    },
    "commands.report_command": {"command_line", "files", "html_report", "report"},
    "search_results": {
        *("diagnostics", "domains", "linear_search", "matching_search", "mixture", "options"),
        *("plots", "run_data", "run_folder", "search_state"),
    },
    "target.training": {
        *("data.store", "files", "run_folder", "target.mixture_schedule"),
        *("target.sequential_trainer", "target.target_config"),
        *("target.trainer_checkpoints", "target.training_plan"),
    },
    "commands.train_command": {
        *("command_line", "data.store", "options", "parallel", "proxy"),
        *("target.mixture_schedule", "target.target_config", "target.training"),
    },
    "run": {
        "matching_search",
        *("checkpoint", "command_line", "data.store", "domains", "files", "options"),
        *("proxy", "run_data", "run_folder", "search", "search_results", "search_state"),
    },
    "commands.search_command": {
        *("agreement", "command_line", "html_report", "mixture", "options", "parallel"),
        *("report", "resuming", "run", "run_data", "search_results"),
    },
    "methods": {
        *("baselines.autoscale", "baselines.doremi", "baselines.fixed", "baselines.mde"),
        *("baselines.problem", "baselines.regmix", "domains", "mixture", "options", "run"),
        *("run_data",),
    },
    "commands.fit_command": {
        *("baselines.autoscale_table", "baselines.gaussian_process", "baselines.problem"),
        *("baselines.regmix", "baselines.runs_table", "command_line", "data.tokens"),
        *("cost", "diagnostics", "html_report", "methods", "options", "parallel", "report"),
        *("resuming", "run_data", "run_folder", "search_results", "weights_files"),
    },
}
KNOWS_PYRO = {"distribution", "guide", "elbo", "importance", "inference", "learner"}
KNOWS_PYRO |= {"point_learners"}
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
    assert ours - BASE == ALLOWED[module]
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
