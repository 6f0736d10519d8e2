# %% [markdown]
# # jurybox from Python
#
# Runs as a script (`python scripts/example.py`), and cell by cell in a notebook (VS Code, Spyder, jupytext). A
# simulated judge model on this machine answers, so no key is needed and nothing is paid.

# %%
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import jurybox
from judges import Judge, Reading, Reply
from runner.simulate import running

stack = ExitStack()
base_url = stack.enter_context(running())  # yours: "https://…/v1", and api_key_env="MY_KEY"
runs = Path(stack.enter_context(TemporaryDirectory()))  # yours: leave `out` away, and runs/NAME-… is the run's place

# %% [markdown]
# ## Answers, judged
#
# Dicts, a data frame or a file. A judge asks for `question`, `reference` and `response`; `fields=` tells which column
# is which where they have other names.

# %%
answers = [
    {"id": "1", "question": "Which river flows through Porto?", "reference": "The Douro", "response": "The Douro."},
    {"id": "2", "question": "What is the capital of Laos?", "reference": "Vientiane", "response": "Hanoi"},
    {"id": "3", "question": "Who wrote Emma?", "reference": "Jane Austen", "response": "It was Jane Austen."},
    {"id": "4", "question": "How many legs has a spider?", "reference": "Eight", "response": "Six, like all insects"},
]
run = jurybox.run(answers, judge="yes-no", model="simulated", base_url=base_url, out=runs / "first")
run.scores()

# %% [markdown]
# The same call again asks nothing: the run is kept in its directory. A row without a score says why in `state`.

# %%
run = jurybox.run(answers, judge="yes-no", model="simulated", base_url=base_url, out=runs / "first")
scores = run.scores().select(pl.col("item_id").alias("id"), "state", "correct")
pl.DataFrame(answers).join(scores, on="id")

# %%
run.report()

# %% [markdown]
# ## A judge of one's own
#
# Data with the keys of a judge's file. In a notebook with a loop of its own, `await jurybox.arun(…)` leaves it free.

# %%
BRIEF = {
    "name": "brief",
    "description": "Is the response right, and in one sentence?",
    "reads": {"kind": "yesno", "verdict": "brief"},
    "route": [{"template": "base"}],
    "sampling": {"temperature": 0, "max_tokens": 200},
    "templates": {
        "base": "Question: {question}\nRight answer: {reference}\nResponse: {response}\n\n"
        "Is the response right, and one sentence at most? Think, then write ### and yes or no."
    },
}
run = jurybox.run(answers, judge=BRIEF, model="simulated", base_url=base_url, out=runs / "second")
run.scores()

# %% [markdown]
# Where a reply needs code to be read, a subclass reads it. What it hands on is read as strictly as ever.


# %%
class AfterMark(Judge):
    """Reads what stands after the mark; a reply without one says nothing."""

    def read(self, reply: Reply, count: int = 1) -> Reading:
        _, mark, verdict = (reply.text or "").rpartition("###")
        return super().read(replace(reply, text=verdict if mark else ""), count)


judge = jurybox.judge(BRIEF, AfterMark)
run = jurybox.run(answers, judge=judge, model="simulated", base_url=base_url, out=runs / "third")
run.judgments().select("item_id", "state", "reason", "judge_reply")

# %%
if __name__ == "__main__":
    import sys

    first = jurybox.load(runs / "first")
    sys.stdout.write(f"{first.scores()}\n\n{first.report()}\n")
stack.close()
