"""What the name of a column says of it: a setting, a time, a loss, a phase of a run.

Names are read word by word; capitals do not matter. A name alone never makes a column a weight.
"""

from __future__ import annotations

import re

from bydore_pyro import mixture

KEYS = ("run", "run_id", "index", "mixture", "name", "run_name")  # columns that may name the runs
FINISHED = ("finished", "completed", "complete", "succeeded", "success", "done", "ok")
FAILED = (
    *("crashed", "failed", "failure", "killed", "error", "aborted", "canceled", "cancelled"),
    *("preempted", "timeout", "oom", "diverged", "running", "pending", "stopped", "interrupted"),
)
#: Names of columns that say how runs ended: State, run_status, wandb.state.
STATE = re.compile(
    r"_?(?:(?:run|runs|job|wandb|trial|train|training|summary|final)[_./])*(?:state|status)",
    re.IGNORECASE,
)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])({pattern})(?![a-z])", re.IGNORECASE)


_UNIT = r"(_(k|m|b|t|thousands?|millions?|billions?|trillions?))?"
#: What differs between runs whose losses do not compare.
ALIKE = re.compile(
    r"_?((global|train|trainer|max|total|num|n|ckpt|final|last|target|(m|b|tr)illions?)_)*"
    rf"(tokens?|steps?|iters?|iterations?)(_(seen|trained|budget))?{_UNIT}|"
    rf"(\w+_)?n?(flops?|params?|parameters|param_count){_UNIT}|compute|"
    r"tokenizer(_name)?|vocab(_size)?|(max_)?(seq(uence)?|context)_(len(gth)?|size)|"
    r"((num|n)_)?(layers?|heads?)|width|d_model|hidden_(dim|size)|"
    rf"(model_)?(scale|size){_UNIT}|model|model_name|arch(itecture)?",
    re.IGNORECASE,
)
#: Columns that are neither weights nor metrics, by their whole names, and why.
APART = {
    **mixture.NO_DOMAIN,
    "a time": r"_?(runtime|timestamp|created|updated|duration|elapsed|epochs?|wall\w*)",
}
#: Why a column that is no weight is no metric either, by the words of its name.
NO_METRIC = {
    "the least or largest value on the way": re.compile(r"(__|[/.])(min|max)$", re.IGNORECASE),
    "a standard error or an interval": _words(
        r"std_?err|standard_?error|std_?dev|std|sem|var|variance|ci(_?\d+)?"
    ),
    "a time, a speed or a setting": _words(
        r"times?|seconds?|secs?|minutes|hours|ms|runtime|timestamp|duration|throughput|tps|mfu|"
        r"\w*per_(second|sec|s)|wall\w*|elapsed|latency|memory|epochs?|repetitions?|repeats?|"
        r"lr|learning_rate|weight_decay|grad(ient)?_norm|batch_size|seed"
    ),
    "a size, a length or a number": re.compile(
        r"(?<![a-z])(flops?|params?|parameters|(n|num|total)_tokens|tokens(_seen)?|steps?|id|"
        r"iterations?|checkpoint|ckpt|n|count|(n|num)_(samples|examples|documents|docs))$",
        re.IGNORECASE,
    ),
}
#: A beginning that says that weights follow: of RegMix, of W&B's settings, of others.
DECLARED = re.compile(
    r"train_the_pile_|train[/._]|((config|params?)[/.])?((data|domain|mixture|mix|sampling)[_/.]?)?"
    r"(weights?|ratios?|shares?|proportions?|probs?|mixture|mix)[/._]",
    re.IGNORECASE,
)
PHASE = re.compile(r"(?<![a-z])(phase|stage)s?[ _./-]*(\d+)", re.IGNORECASE)
LOSS = re.compile(
    r"(loss(es)?|nll|bpb|bpc|ppl|perplexity|perplexities|x_?ent|cross[ _-]?entropy|bits_?per_?\w+|"
    r"(?<![a-z])ce)(?![a-z])",
    re.IGNORECASE,
)
#: With these words a loss is one of which more is better, or a difference that may be either.
TURNED = _words(
    r"neg\w*|minus|gains?|improve\w*|reduc\w*|drop|delta|diffs?|difference|change|gap|"
    r"decrease\w*|saved|ratio|win|better|worse|vs|versus|margin|inv|inverse\w*"
)
#: After a loss's word these say that the column is of something else.
AFTER = _words(
    "acc|accuracy|scores?|f1|em|exact_?match|auc|bleu|rouge|reward|rate|rank|scale|weights?|counts?"
)
METRIC = _words(
    r"acc|accuracy|scores?|f1|em|exact_?match|auc|bleu|rouge|reward|error|err|\w*rate|wins?|ties?|"
    r"stderr|eval|evaluation|val|valid|validation|test|metrics?"
)
#: Where logs keep settings and summaries.
NAMESPACE = re.compile(
    r"((config|summary|args|hparams|params|trainer|train|run|optim|optimizer|model|data)[/.])*",
    re.IGNORECASE,
)
TRAINING, HELD_OUT = (
    _words("train|training|trn|tr"),
    _words(r"val|valid\w*|eval\w*|test|dev|held_?out"),
)


def _spaced(name: str) -> str:
    """Returns a name whose words are parted by _ where capitals, spaces or brackets part them:
    valLoss becomes val_Loss, tokens (B) becomes tokens_B."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[\s()\[\]-]+", "_", name).rstrip("_")


def _bare(name: str) -> str:
    return NAMESPACE.sub("", _spaced(name), count=1)


def sounds_like_a_loss(name: str) -> bool:
    """Whether a metric's name says that lower is better."""
    name = _spaced(name)
    *_, last = (None, *LOSS.finditer(name))
    if last is None or TURNED.search(name):
        return False
    return not AFTER.search(name, last.end())


def sounds_like_a_metric(name: str) -> bool:
    """Whether a name has a word of metrics, of which some may sum to 1 as weights do."""
    name = _spaced(name)
    return bool(LOSS.search(name) or METRIC.search(name))


def key_of(name: str) -> str:
    """Returns a column's name as `KEYS` writes it: Run Name becomes run_name."""
    return name.lower().replace(" ", "_")


def reason_apart(name: str) -> str:
    """Returns why a column is no weight, whatever it holds, by its whole name; "" if it may be."""
    if key_of(name) in KEYS:
        return "names the runs"
    if says_state(name):
        return "the runs' state"
    if not name or re.fullmatch(r"Unnamed: \d+", name):
        return "no name"
    if must_be_alike(name):
        return "a size, a length or a model"
    for reason, pattern in APART.items():
        if re.fullmatch(pattern, _bare(name), re.IGNORECASE):
            return reason
    name = _spaced(name)
    if LOSS.search(name) and TRAINING.search(name) and not HELD_OUT.search(name):
        return "a loss of the training"
    return ""


def says_state(name: str) -> bool:
    """Whether a column says in words how runs ended."""
    return bool(STATE.fullmatch(_spaced(name)))


def must_be_alike(name: str) -> bool:
    """Whether runs compare only where they have one value in a column: a length, a size, a
    tokenizer."""
    return bool(ALIKE.fullmatch(_bare(name))) and not sounds_like_a_metric(name)


def reason_no_metric(name: str) -> str:
    """Returns why a column that is no weight is no metric; "" if it may be one."""
    name = _spaced(name)
    reasons = (reason for reason, pattern in NO_METRIC.items() if pattern.search(name))
    return next(reasons, "")


def phase_of(name: str) -> str | None:
    """Returns the phase of a run that a column is called after, such as "phase 0"."""
    found = PHASE.search(name)
    return f"{found[1].lower()} {int(found[2])}" if found else None


def without_declaration(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the domains' names: columns without what says that they are weights, if all begin
    with the same."""
    found = [DECLARED.match(name) for name in names]
    starts = {match[0] for match in found if match}
    if len(starts) != 1 or not all(found):
        return names
    return tuple(name.removeprefix(next(iter(starts))) for name in names)
