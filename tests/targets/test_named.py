"""The tasks that an entry names: of files, of groups, none of plain text and of domains."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_files import gsm8k_folder
from tiny import write_lines

from bydore_pyro.errors import DataError
from bydore_pyro.targets.entry import Entry
from bydore_pyro.targets.named import tasks_named


def test_files_of_questions_and_plain_text(tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {n}?", "completion": f" It is {n}."} for n in range(5)]
    asked = write_lines(tmp_path / "quiz.jsonl", rows)
    (task,) = tasks_named(Entry.of(f"{asked},name=own=.5")).values()
    assert (task.name, len(task.requests)) == ("own", 5)
    plain = write_lines(tmp_path / "plain.jsonl", [{"text": f"Words {n}."} for n in range(5)])
    (tmp_path / "notes.txt").write_text("words")
    for entry in (str(plain), str(tmp_path / "notes.txt"), "web"):
        assert tasks_named(Entry.of(entry)) == {}
    assert tasks_named(Entry.of(str(asked)), text_column="prompt") == {}, "it is plain text then"
    (other,) = tasks_named(Entry.of(str(asked)), text_column="body").values()
    assert len(other.requests) == 5, "the column of other files is not forced on this one"
    own = tasks_named(
        Entry.of(f"{asked},prompt_column=prompt,answer_column=completion"), text_column="other"
    )
    assert len(own["quiz"].requests) == 5


@pytest.mark.slow
def test_a_task_and_a_group_of_lm_eval(tmp_path: Path) -> None:
    data = gsm8k_folder(tmp_path, [f"A sum of {n} and more is what it is." for n in range(6)])
    (task,) = tasks_named(Entry.of("task:gsm8k,name=sums"), data_dir=str(data)).values()
    assert (task.name, task.split, len(task.requests)) == ("sums", "train", 6)
    with pytest.raises(DataError, match="--data_dir"):
        tasks_named(Entry.of("task:ai2_arc"), data_dir=str(data))
