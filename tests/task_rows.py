"""Rows of tasks in the schemas in which people keep them, in words of our own: three questions of
four choices, of which the first, the third and the second is right."""

from __future__ import annotations

from typing import Any

ASKED = ["Where does the heron sleep?", "What opens the mill?", "Who keeps the ferry?"]
CHOICES = [
    ["In the reeds.", "In the bakery.", "On a ladder.", "Below the ice."],
    ["A song.", "A herring.", "An iron key.", "The north wind."],
    ["A cloud.", "Old Marta.", "A barrel.", "The moon."],
]
RIGHT = [0, 2, 1]
ANSWERS = [choices[right] for choices, right in zip(CHOICES, RIGHT, strict=True)]
READ = "Much is known of the river and of those who live there."
PLACES = range(len(ASKED))


def chat(place: int, **further: str) -> list[dict[str, str]]:
    """A question and its answer as messages, after what else is said."""
    said = [*further.items(), ("user", ASKED[place]), ("assistant", ANSWERS[place])]
    return [{"role": role, "content": text} for role, text in said]


def olmes(place: int, of_choice: int, number: int) -> dict[str, Any]:
    """A request of OLMES; without the question from a million on."""
    context = f"Question: {ASKED[place]}\nAnswer:" if number < 1_000_000 else "Answer:"
    return {
        "request_type": "loglikelihood",
        "doc": {"query": context, "choices": CHOICES[place], "gold": RIGHT[place]},
        "request": {"context": context, "continuation": f" {CHOICES[place][of_choice]}"},
        "idx": of_choice,
        "task_name": "river",
        "doc_id": number,
        "native_id": f"q{place}",
        "label": RIGHT[place],
    }


def arguments(*each: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    """Of a logged sample."""
    return {
        f"gen_args_{n}": {f"arg_{m}": value for m, value in enumerate(one)}
        for n, one in enumerate(each)
    }


def sample(place: int, target: str, *each: tuple[Any, ...], **further: Any) -> dict[str, Any]:
    """A sample as lm-eval logs it."""
    rest = {"resps": [[["-3.0", "False"]]], "filter": "none", "metrics": ["acc"], "acc": 0.0}
    made = {"doc_id": place, "doc": {}, "target": target, "arguments": arguments(*each)}
    return {**made, **rest, **further}


def arc(place: int) -> dict[str, Any]:
    return {
        "id": f"q{place}",
        "question": ASKED[place],
        "choices": {"text": CHOICES[place], "label": ["A", "B", "C", "D"]},
        "answerKey": "ABCD"[RIGHT[place]],
    }


def code(place: int) -> str:
    return f"def f_{place}(x):\n    return x + {place}\n"


#: Rows by the kind of the file.
KINDS: dict[str, list[dict[str, Any]]] = {
    "trl": [{"prompt": ASKED[n], "completion": f" {ANSWERS[n]}"} for n in PLACES],
    "trl_chat": [{"prompt": chat(n)[:1], "completion": chat(n)[1:]} for n in PLACES],
    "messages": [{"messages": chat(n, system="Be brief.")} for n in PLACES],
    "messages_and_text": [{"text": f"<|user|>{ASKED[n]}", "messages": chat(n)} for n in PLACES],
    "sharegpt": [
        {"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}
        for q, a in zip(ASKED, ANSWERS, strict=True)
    ],
    "alpaca": [{"instruction": ASKED[n], "input": "", "output": ANSWERS[n]} for n in PLACES],
    "continuation": [{"context": ASKED[n], "continuation": f" {ANSWERS[n]}"} for n in PLACES],
    "requests": [
        olmes(n, m, number) for n in PLACES for number in (n, 1_000_000 + n) for m in range(4)
    ],
    "samples_of_choices": [
        sample(
            n,
            str(RIGHT[n]),
            *((f"Question: {ASKED[n]}\nAnswer:", f" {one}") for one in CHOICES[n]),
            doc=arc(n),
        )
        for n in PLACES
    ],
    "samples_of_texts": [
        sample(n, ANSWERS[n], (f"Question: {ASKED[n]}\nAnswer:", {"until": ["\n"]})) for n in PLACES
    ],
    "arc": [arc(n) for n in PLACES],
    "piqa": [
        {"goal": ASKED[n], "sol1": CHOICES[n][RIGHT[n]], "sol2": CHOICES[n][3], "label": 0}
        if n
        else {"goal": ASKED[n], "sol1": CHOICES[n][3], "sol2": CHOICES[n][RIGHT[n]], "label": 1}
        for n in PLACES
    ],
    "gsm8k": [{"question": ASKED[n], "answer": f"{ANSWERS[n]}\n#### {n}"} for n in PLACES],
    "mbpp": [
        {
            "task_id": n,
            "text": f"Write a function that adds {n}.",
            "code": code(n),
            "test_list": [f"assert f_{n}(1) == {n + 1}"],
            "test_setup_code": "",
        }
        for n in PLACES
    ],
    "humaneval": [
        {
            "task_id": f"Own/{n}",
            "prompt": f"def f_{n}(x):\n",
            "canonical_solution": f"    return x + {n}\n",
            "test": "def check(f): ...",
            "entry_point": f"f_{n}",
        }
        for n in PLACES
    ],
    "mmlu": [
        {"question": ASKED[n], "subject": "river", "choices": CHOICES[n], "answer": RIGHT[n]}
        for n in PLACES
    ],
    "hellaswag": [
        {
            "ind": n,
            "activity_label": "River",
            "ctx_a": ASKED[n],
            "ctx_b": "",
            "ctx": f"[header] {ASKED[n]} [title] So",
            "endings": CHOICES[n],
            "label": str(RIGHT[n]),
        }
        for n in PLACES
    ],
    "boolq": [
        {"question": "is the river deep", "answer": n != 1, "passage": f"{READ} {n}"}
        for n in PLACES
    ],
    "sciq": [
        {
            "question": ASKED[n],
            **{f"distractor{m + 1}": w for m, w in enumerate(sorted({*CHOICES[n]} - {ANSWERS[n]}))},
            "correct_answer": ANSWERS[n],
            "support": READ,
        }
        for n in PLACES
    ],
    "squad": [
        {
            "id": f"s{n}",
            "title": "River",
            "context": f"{READ} {ANSWERS[n]}",
            "question": ASKED[n],
            "answers": {"text": [ANSWERS[n], "No."], "answer_start": [len(READ) + 1, 0]},
        }
        for n in PLACES
    ],
    "triviaqa": [
        {
            "question": ASKED[n],
            "question_id": f"t{n}",
            "answer": {"aliases": [ANSWERS[n]], "value": ANSWERS[n]},
        }
        for n in PLACES
    ],
    "winogrande": [
        {
            "sentence": f"The heron {n} met the fox since _ was hungry.",
            "option1": "the heron",
            "option2": "the fox",
            "answer": "12"[n % 2],
        }
        for n in PLACES
    ],
    "openbookqa": [
        {
            "id": f"o{n}",
            "question_stem": "The heron sleeps",
            "choices": {"text": CHOICES[n], "label": ["A", "B", "C", "D"]},
            "answerKey": "ABCD"[RIGHT[n]],
        }
        for n in PLACES
    ],
    "commonsenseqa": [{**arc(n), "question_concept": "river"} for n in PLACES],
    "socialiqa": [
        {
            "context": READ,
            "question": ASKED[n],
            "answerA": CHOICES[n][0],
            "answerB": CHOICES[n][1],
            "answerC": CHOICES[n][2],
            "label": str(RIGHT[n] + 1),
        }
        for n in PLACES
    ],
    "race": [
        {
            "article": READ,
            "question": ASKED[n],
            "options": CHOICES[n],
            "answer": "ABCD"[RIGHT[n]],
        }
        for n in PLACES
    ],
    "medmcqa": [
        {
            "question": ASKED[n],
            **dict(zip(("opa", "opb", "opc", "opd"), CHOICES[n], strict=True)),
            "cop": RIGHT[n],
            "exp": "So it is.",
        }
        for n in PLACES
    ],
    "medqa": [
        {
            "question": ASKED[n],
            "options": dict(zip("ABCD", CHOICES[n], strict=True)),
            "answer_idx": "ABCD"[RIGHT[n]],
            "answer": ANSWERS[n],
        }
        for n in PLACES
    ],
    "maths": [
        {"problem": ASKED[n], "solution": f"{ANSWERS[n]} So {n}.", "answer": str(n)} for n in PLACES
    ],
}
