"""Small data in the schema of the paper's 13 benchmarks, a model of known answers, and a search."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tokenizers import Tokenizer, models
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bydore_pyro import answer, files, setup
from bydore_pyro.mixture import Mixture

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")


@dataclass(frozen=True)
class Question:
    """A row of a benchmark, and what lm-eval asks of it.

    Args:
        row: In the benchmark's schema.
        asked: For every choice, the end of the context and the continuation.
        gold: The choice that lm-eval takes for the right one.
    """

    row: dict[str, Any]
    asked: list[tuple[str, str]]
    gold: int


def social_iqa(i: int, gold: int, answers: Sequence[str]) -> Question:
    a, b, c = answers[:3]
    row = {"context": f"Event {i}.", "question": "Why?", "answerA": a, "answerB": b, "answerC": c}
    prompt = f"Q: Event {i}. Why?\nA:"
    row["label"] = str(gold % 3 + 1)
    return Question(row, [(prompt, f" {answer}") for answer in answers[:3]], gold % 3)


def hellaswag(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"activity_label": "Tea", "ctx_a": f"Cup {i} is hot.", "ctx_b": "then she"}
    row |= {"endings": list(answers), "label": str(gold)}
    return Question(row, [(f"Tea: Cup {i} is hot. Then she", f" {a}") for a in answers], gold)


def piqa(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"goal": f"Mend {i}", "sol1": answers[0], "sol2": answers[1], "label": gold % 2}
    prompt = f"Question: Mend {i}\nAnswer:"
    return Question(row, [(prompt, f" {a}") for a in answers[:2]], gold % 2)


def openbookqa(i: int, gold: int, answers: Sequence[str]) -> Question:
    choices = {"text": list(answers), "label": ["A", "B", "C", "D"]}
    row = {"id": str(i), "question_stem": f"Stem {i} is", "choices": choices}
    row["answerKey"] = "ABCD"[gold]
    return Question(row, [(f"Stem {i} is", f" {a}") for a in answers], gold)


def lambada(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"text": f"Passage {i} ends with {answers[0]}", "domain": "x"}
    prompt = f"Passage {i} ends with"
    return Question(row, [(prompt, f" {answers[0]}"), (prompt, f" {answers[1]}")], 0)


def sciq(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {f"distractor{k + 1}": answers[k] for k in range(3)}
    row |= {"support": f"Fact {i}.", "question": "Which?", "correct_answer": answers[3]}
    prompt = f"Fact {i}.\nQuestion: Which?\nAnswer:"
    return Question(row, [(prompt, f" {a}") for a in answers], 3)


def arc_easy(i: int, gold: int, answers: Sequence[str]) -> Question:
    choices = {"text": list(answers), "label": ["1", "2", "3", "4"]}
    row = {"id": str(i), "question": f"Rock {i}?", "choices": choices, "answerKey": str(gold + 1)}
    return Question(row, [(f"Question: Rock {i}?\nAnswer:", f" {a}") for a in answers], gold)


def copa(i: int, gold: int, answers: Sequence[str]) -> Question:
    first, second = (f"{a} came." for a in answers[:2])
    kind, word = (("cause", "because"), ("effect", "therefore"))[i % 2]
    row = {"premise": f"Door {i} shut.", "question": kind, "idx": i, "label": gold % 2}
    row |= {"choice1": first.capitalize(), "choice2": second.capitalize()}
    prompt = f"Door {i} shut {word}"
    return Question(row, [(prompt, f"  {first}"), (prompt, f"  {second}")], gold % 2)


def race(i: int, gold: int, answers: Sequence[str]) -> Question:
    problems = [
        {"question": "It is  _  .", "answer": "A", "options": ["so", "p", "q", "r"]},
        {"question": f"Who wrote {i}?", "answer": "ABCD"[gold], "options": list(answers)},
    ]
    row = {"article": f"Article {i}.", "problems": str(problems)}
    prompt = f"Article: Article {i}.\n\nIt is so\nWho wrote {i}?"
    return Question(row, [(prompt, f" {a}") for a in answers], gold)


def logiqa(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"context": f"Rule {i}.", "question": "So?", "options": list(answers)}
    row["label"] = "abcd"[gold]
    listed = "".join(f"{letter}. {a}\n" for letter, a in zip("ABCD", answers, strict=True))
    prompt = f"Passage: Rule {i}.\nQuestion: So?\nChoices:\n{listed}Answer:"
    return Question(row, [(prompt, f" {a}") for a in answers], gold)


def qqp(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"question1": f"Is {i}?", "question2": f"Was {i}?", "idx": i, "label": gold % 2}
    asked = "Question: Do both questions ask the same thing?\nAnswer:"
    prompt = f"Question 1: Is {i}?\nQuestion 2: Was {i}?\n{asked}"
    return Question(row, [(prompt, " no"), (prompt, " yes")], gold % 2)


def winogrande(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"sentence": f"In {i} we saw that _ was big.", "answer": str(gold % 2 + 1)}
    row |= {"option1": answers[0], "option2": answers[1]}
    asked = [(f"In {i} we saw that {a}", " was big.") for a in answers[:2]]
    return Question(row, asked, gold % 2)


def multirc(i: int, gold: int, answers: Sequence[str]) -> Question:
    row = {"paragraph": f"Text {i}.", "question": "What?", "answer": answers[0]}
    row |= {"idx": {"paragraph": i, "question": 0, "answer": 0}, "label": gold % 2}
    prompt, asked = (
        f"Text {i}.\nQuestion: What?\nAnswer:",
        f" {answers[0]}\nIs the answer correct? ",
    )
    # In lm-eval 0.4.13 the label 1, a correct answer, counts "no" as right.
    return Question(row, [(prompt, f"{asked}yes"), (prompt, f"{asked}no")], gold % 2)


@dataclass(frozen=True)
class Schema:
    """How a benchmark's rows are made, and its splits: of the questions and of the examples."""

    make: Callable[[int, int, Sequence[str]], Question]
    questions: str
    examples: str


SCHEMAS = {
    "social_iqa": Schema(social_iqa, "validation", "train"),
    "hellaswag": Schema(hellaswag, "validation", "train"),
    "piqa": Schema(piqa, "validation", "train"),
    "openbookqa": Schema(openbookqa, "test", "train"),
    "lambada_standard": Schema(lambada, "test", "validation"),
    "sciq": Schema(sciq, "test", "train"),
    "arc_easy": Schema(arc_easy, "test", "train"),
    "copa": Schema(copa, "validation", "train"),
    "race": Schema(race, "test", "test"),
    "logiqa": Schema(logiqa, "test", "train"),
    "qqp": Schema(qqp, "validation", "train"),
    "winogrande": Schema(winogrande, "validation", "train"),
    "multirc": Schema(multirc, "validation", "train"),
}


def questions_of(task: str, count: int = 10, first: int = 0) -> list[Question]:
    """Makes questions, numbered so that no two prompts end alike."""
    return [
        SCHEMAS[task].make(100 + i, i % 4, [WORDS[(i + k) % len(WORDS)] for k in range(4)])
        for i in range(first, first + count)
    ]


def write_split(folder: Path, task: str, split: str, questions: Sequence[Question]) -> Path:
    """Writes questions as JSON lines; returns the file."""
    (folder / task).mkdir(parents=True, exist_ok=True)
    path = folder / task / f"{split}.jsonl"
    path.write_text("".join(json.dumps(q.row) + "\n" for q in questions), encoding="utf-8")
    return path


def write_benchmark(
    folder: Path, task: str, count: int = 10, examples: bool = True
) -> list[Question]:
    """Writes a benchmark's data into its sub-folder; returns the questions."""
    schema, questions = SCHEMAS[task], questions_of(task, count)
    if examples and schema.examples != schema.questions:
        write_split(folder, task, schema.examples, questions_of(task, 6, first=500))
    write_split(folder, task, schema.questions, questions)
    return questions


def character_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the printable characters; 0 ends a text."""
    vocabulary = {"<end>": 0} | {c: i + 1 for i, c in enumerate(string.printable)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


class KnownAnswers(nn.Module):
    """A language model that holds beliefs: after a prompt, how likely each next character is.

    Args:
        beliefs: (prompt, continuation, probability of each of the continuation's characters). In
            a text, the prompt that ends last counts. All other characters are equally likely.
    """

    def __init__(self, beliefs: Sequence[tuple[str, str, float]]) -> None:
        super().__init__()
        self.config = LlamaConfig(vocab_size=101, max_position_embeddings=2048)
        self.device = torch.device("cpu")
        self.unused = nn.Parameter(torch.zeros(3))
        self.beliefs: dict[str, list[tuple[str, float]]] = {}
        for prompt, continuation, probability in beliefs:
            self.beliefs.setdefault(prompt, []).append((continuation, probability))

    def tie_weights(self) -> None:
        """As lm-eval asks of a model."""

    def forward(self, input_ids: Tensor) -> SimpleNamespace:
        probabilities = torch.zeros(*input_ids.shape, 101, dtype=torch.float64)  # (B, T, V)
        for row, tokens in zip(probabilities, input_ids.tolist(), strict=True):
            text = "".join(string.printable[token - 1] if token else "\0" for token in tokens)
            ends = [
                (place + len(prompt), len(prompt), prompt)
                for prompt in self.beliefs
                if (place := text.rfind(prompt)) >= 0
            ]
            end, _, prompt = max(ends, default=(len(text) + 1, 0, ""))
            for continuation, probability in self.beliefs.get(prompt, []):
                for place, character in enumerate(continuation):
                    if text[end : end + place] == continuation[:place] and end + place <= len(text):
                        token = string.printable.index(character) + 1
                        row[end + place - 1, token] = max(
                            row[end + place - 1, token].item(), probability
                        )
        rest = (1 - probabilities.sum(-1, keepdim=True)) / (probabilities == 0).sum(
            -1, keepdim=True
        )
        return SimpleNamespace(logits=torch.where(probabilities == 0, rest, probabilities).log())


def believing(questions: Sequence[Question], right: Callable[[int], bool]) -> KnownAnswers:
    """A model that is sure of an answer to every question, and right about some.

    Args:
        questions: Of any benchmarks.
        right: Whether it is right about the question of a place.
    """
    beliefs = []
    for place, question in enumerate(questions):
        wrong = (question.gold + 1) % len(question.asked)
        prompt, continuation = question.asked[question.gold if right(place) else wrong]
        beliefs.append((prompt, continuation, 0.99))
    return KnownAnswers(beliefs)


def save_model(folder: Path, vocabulary: int = 101) -> Path:
    """Saves an untrained model with its tokenizer."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


def write_run(folder: Path, **outlook: Any) -> Path:
    """Writes a finished search with an outlook."""
    folder.mkdir()
    mixture = Mixture(names=("a", "b"), weights=(0.5, 0.5))
    (folder / "mixture.json").write_text(mixture.to_json())
    record = setup.Metrics(
        mixture_sha256=mixture.sha256, outlook=answer.Outlook(tokens=5000.0, **outlook)
    )
    (folder / "metrics.json").write_text(json.dumps(files.plain(record)))
    return folder
