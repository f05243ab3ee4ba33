"""The commands to go on with after a run: each is for the weights that were just shown."""

from __future__ import annotations

import dataclasses
import itertools
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bydore_pyro import ask, shards, targets, training
from bydore_pyro.data import DOMAIN_TOKENS, CorpusConfig, RowConfig, is_row_file, is_store
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import LIMITS

OF_SHARDS = (  # parts and options that say how shards are read
    *(("tokenizer", name) for name in ("tokenizer", "separator", "token_bytes")),
    ("corpus", "validation_fraction"),
)
OF_TEXT = ("validation_fraction", "shortest_document", "longest_document", "data_seed")
LENGTH, BATCH = training.TargetConfig.sequence_length, training.TargetConfig.target_batch_sequences
EPOCHS = training.TargetConfig.max_epochs
USUAL = 1e9  # tokens of a training that nothing says the length of
FEWEST = 100  # steps of a training that nothing says the length of
MARGIN = 0.9  # of the longest one: steps are whole, and the number has two digits


def commands(record: RunRecord) -> list[tuple[str, str]]:
    """Returns commands to go on with: the purpose of each, and the line. Capitals are the user's
    own places. Of an answer about a given mixture they are for that mixture."""
    run, export = shlex.quote(str(record.path)), "--prefix '/data/{domain}' --out FILE"
    given = (record.path / ask.GIVEN).is_file()
    mixture = shlex.quote(str(record.path / ask.GIVEN)) if given else run
    weights = "The given mixture" if given else "The weights"
    found = [
        (f"{weights} in a trainer's own format", f"bydore export {mixture} --to nanotron {export}")
    ]
    unexplained = record.metrics.matching.unexplained
    searched = record.by_matching and record.found_by == "search"
    if searched and unexplained is not None and LIMITS["unexplained"].level(unexplained) == "bad":
        more = f"bydore ask {run} --add MORE --out ANSWER"
        found.insert(0, ("The same with a store of more text, such as the target's", more))
    data, prepare = _data(record)
    if prepare:
        found.append(("All of the text as the tokens that trainings take", prepare))
    if length := _length(record):
        train = f"bydore train --mixture {mixture} --data {data} --model models/target-60m {length}"
        found += [
            (
                f"A target model trained on exactly the {weights[4:]}",
                f"{train} --out DIR",
            ),
            ("Scores of the trained model", f"bydore evaluate DIR/model {_scored(record)}"),
        ]
    if record.found_by == "search":
        seed = int(record.asked("run", "seed") or 0) + 1
        again = f"bydore search --config {run}/config.json --seed {seed} --out SEED-{seed}"
        found.append((f"The same with another seed, for bydore report RUN SEED-{seed}", again))
    return found


def _scored(record: RunRecord) -> str:
    """Returns the options of an evaluation on the tasks and files of rows among the targets, beside
    what the run predicted of them; on the paper's benchmarks where there are none."""
    columns = {key: record.asked("question", key) for key in ("prompt_column", "answer_column")}
    own = {key: value for key, value in columns.items() if value is not None}
    tasks = []
    named = [record.asked("question", key) or [] for key in ("validation", "guard")]
    for text in itertools.chain(*named):
        entry = dataclasses.replace(targets.Entry.of(text), share=1.0, score="answer")
        if entry.file and is_row_file(Path(entry.file)) and not entry.columns.named:
            entry = dataclasses.replace(entry, **own)
        if entry.task or (entry.file and is_row_file(Path(entry.file))):
            tasks.append(str(entry))
    if not tasks:
        return "--tasks pile13 --hub"
    place, hub = record.asked("question", "data_dir"), record.asked("question", "hub")
    text = record.asked("rows", "text_column")
    return (
        f"--tasks {shlex.join(tasks)}"
        + (f" --data_dir {shlex.quote(place)}" if place else "")
        + (" --hub" if hub else "")
        + _differing({"text_column": text}, asdict(RowConfig()))
        + f" --run {shlex.quote(str(record.path))}"
    )


def _data(record: RunRecord) -> tuple[str, str]:
    """Returns what stands behind `--data` of a training on the run's domains, and the command that
    prepares it, "" where it is there."""
    data, added = record.asked("run", "data"), record.asked("ask", "add") or []
    more = f" --add {shlex.join(added)}" if added else ""
    if data is None:
        return f"STORE{more}", ""
    of = shlex.quote(str(record.asked("answer", "of") or record.path))
    if DOMAIN_TOKENS in record.index:  # the whole corpus, which lies elsewhere
        return f"STORE{more}", f"bydore prepare --data DATA --tokenizer {of} --out STORE"
    if shards.names_shards(data):
        own = asdict(CorpusConfig())
        return _with(record, shlex.quote(data), OF_SHARDS, own) + more, ""
    if is_store(Path(data)) and not _is_sample(record.index):
        return f"{shlex.quote(data)}{more}", ""
    rows = asdict(RowConfig())
    if is_store(Path(data)):  # a sample of text, which it names as it was named
        origin = str(record.index.get("origin", "DATA"))
        told = record.index.get("rows")
        there = Path(origin).exists() or origin == "environment" or ":" in origin
        source = shlex.quote(origin) if there else "DATA"
        found = source + _differing(told if isinstance(told, Mapping) else {}, rows)
    else:
        places = [("rows", name) for name in rows] + [("corpus", name) for name in OF_TEXT]
        found = _with(record, shlex.quote(data), places, {**rows, **asdict(CorpusConfig())})
    return f"STORE{more}", f"bydore prepare --data {found} --tokenizer {of} --out STORE"


def _is_sample(index: Mapping[str, Any]) -> bool:
    """Whether the text that a run searched on is a part of its sources alone."""
    return any("in_all" in one.get("train", {}) for one in index.get("domains", {}).values())


def _with(record: RunRecord, place: str, names: Any, usual: Mapping[str, Any]) -> str:
    return place + _differing({name: record.asked(part, name) for part, name in names}, usual)


def _differing(values: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    return "".join(
        f" --{name} {shlex.quote(str(value))}"
        for name, value in values.items()
        if value not in (None, usual.get(name))
    )


def _length(record: RunRecord) -> str:
    """Returns the options of a training that say how long it is, "" where there is too little text.

    It is as long as the run that the weights are for. Where none is known, no text is read more
    often than a training allows. Little text is read in the search's sequences and batches.
    """
    asked = record.asked("question", "target_tokens")
    small = int(record.asked("run", "sequence_length") or LENGTH)
    sizes = [(LENGTH, BATCH), (small, int(record.asked("search", "batch_sequences") or BATCH))]
    for sequence, batch in [*sizes, (small, 1)]:
        step, once = sequence * batch, _read_once(record, sequence)
        tokens = float(asked) if asked else min(USUAL, MARGIN * EPOCHS * once)
        if once and tokens >= (1 if asked else FEWEST) * step:
            break
    else:
        return ""
    said = f"{tokens:.15g}" if asked else f"{float(f'{tokens:.1e}'):.0f}"
    found = f"--tokens {'1B' if said == f'{USUAL:.0f}' else said}"
    if (sequence, batch) != (LENGTH, BATCH):
        found += f" --sequence_length {sequence} --target_batch_sequences {batch}"
    if tokens > EPOCHS * once:
        found += f" --max_epochs {math.ceil(100 * tokens / once) / 100:g}"
    return f"{found} --device auto"


def _read_once(record: RunRecord, sequence: int) -> float:
    """Returns the tokens of the training that reads a domain's whole sequences once and no domain
    more often; infinity where the size of the text is not known."""
    domains, found = record.index.get("domains", {}), [math.inf]
    stated = record.index.get(DOMAIN_TOKENS, {})
    for name, weight in record.mixture.as_dict().items():
        if weight > 0 and name in domains:
            text = domains[name]["train"]
            size = stated.get(name, text.get("in_all", text)["tokens"])
            found.append(size // sequence * sequence / weight)
    return min(found)
