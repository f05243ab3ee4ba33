"""The models of one's own that a question names: checked before anything is read, and loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bydore_pyro import core, data, files, measure, proxy, terminal
from bydore_pyro.errors import DataError, listed
from bydore_pyro.setup.domains import check_length, check_tokenizer, processes
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.record import ModelRecord, ModelsRecord
from bydore_pyro.setup.targets import Targets

SHORT = 12  # digits of a hash that is shown
FEW = 12  # names in a sentence


def models_of(
    options: Options, corpus: data.TokenStore, places: Sequence[str]
) -> list[measure.Model]:
    """Checks models and returns them, the base first.

    Each is loaded once for that, one at a time: else hours might pass before an error.

    Args:
        options: Of the run.
        corpus: Its text.
        places: The models' folders, two at least.

    Raises:
        DataError: When a folder is none, or its model is not sound, knows another tokenizer or
            shorter sequences, or stands twice.
    """
    found: dict[str, str] = {}
    for place in places:
        folder = Path(place)
        if not folder.is_dir():
            raise DataError(f"Expected the folder of a model for --models, found none: {place}")
        config = proxy.read_model_config(place)
        check_length(config, place, options.run.sequence_length)
        if not check_tokenizer(folder, corpus):
            terminal.tell(
                f"warning: {place} has no tokenizer.json: it is taken for a model of the text's "
                "tokenizer"
            )
        proxy.load_language_model(place, corpus.vocabulary)
        weights = sorted(folder.glob("*.safetensors"))
        sha256 = files.content_hash(
            [proxy.configuration_of(place), [data.file_sha256(one) for one in weights]]
        )
        if sha256 in found:
            raise DataError(
                f"Expected every model once for --models, found the same in {found[sha256]} and "
                f"{place}"
            )
        found[sha256] = place
    return [measure.Model(folder=place, sha256=sha256) for sha256, place in found.items()]


def loader_of(
    options: Options, vocabulary: int, cost: proxy.Cost
) -> Callable[[measure.Model], proxy.MeasuredModel]:
    """Returns a function that loads a model on the device of the options, to be measured.

    Args:
        options: Of the run.
        vocabulary: Tokens of the text's tokenizer.
        cost: The counter that is charged.
    """

    def load(model: measure.Model) -> proxy.MeasuredModel:
        own = proxy.load_language_model(model.folder, vocabulary).to(options.device)
        return proxy.MeasuredModel(own, cost, processes(options))

    return load


def models_record(models: Sequence[measure.Model], targets: Targets) -> ModelsRecord:
    """Returns the record of the models that targets were read in: which, and what they tell apart
    of the domains that are to be trained on; an empty one without any."""
    responses = targets.rounds[-1].responses
    if responses is None or not responses.models:
        return ModelsRecord()
    count = responses.models
    apart = measure.separated(
        {
            name: core.Sample(one.gradients[:, -count:], one.documents)
            for name, one in zip(targets.names, responses.domains, strict=True)
        }
    )
    return ModelsRecord(
        read=tuple(
            ModelRecord(folder=str(Path(one.folder).absolute()), sha256=one.sha256[:SHORT])
            for one in models
        ),
        equations=len(responses.groups[-count:].unique()),
        domains=len(targets.names),
        directions=apart.directions,
        alike=apart.alike,
    )


def models_words(record: ModelsRecord, *, tested: bool) -> str:
    """Returns in sentences which models an answer rests on, and what they tell apart; "" without.

    Args:
        record: Of the models.
        tested: Whether responses say what is unexplained.
    """
    if not record.read:
        return ""
    base, *others = (one.folder for one in record.read)
    branches = "1 branch" if record.equations == 1 else f"{record.equations} branches"
    separate = "1 direction" if record.directions == 1 else f"{record.directions} directions"
    words = (
        f"{len(record.read)} models count as {branches}: from {base} to {listed(others, FEW)}. "
        f"They separate {separate} of {record.domains} domains."
    )
    if record.alike:
        groups = "; ".join(listed(names, FEW) for names in record.alike)
        words += f" They do not tell apart: {groups}."
    if not tested:
        words += " They are too few to say what is unexplained: the gradients say it."
    return words
