"""The answer in one paragraph, and what to doubt about it.

In: the numbers of report.json. Out: sentences. They say the same whichever way the numbers fall: a gain, a loss or
nothing. Not here: counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from text2sql_rl.explain import visible as visible

SIGNIFICANT = 0.001
_FEW_QUESTIONS = 600
_FEW_DATABASES = 8
_JUDGE_SHARE = 0.10
_MOVED = 0.02
_LONGEST = 1_500

Numbers = Mapping[str, Any]


def percent(share: float | None, digits: int = 1) -> str:
    """0.925 -> '92.5 %'; a dash where there is no number."""
    return "–" if share is None else f"{share * 100:.{digits}f} %"  # noqa: RUF001 - a dash


def interval(ends: Any) -> str:
    """[0.9, 0.95] -> '90.0 to 95.0 %'."""
    return f"{ends[0] * 100:.1f} to {ends[1] * 100:.1f} %" if ends else ""


def points(difference: float) -> str:
    """0.047 -> '+4.7 points'."""
    return f"{difference * 100:+.1f} points"


def points_interval(ends: Any) -> str:
    """[0.012, 0.08] -> '+1.2 to +8.0 points'."""
    return f"{ends[0] * 100:+.1f} to {ends[1] * 100:+.1f} points" if ends else ""


def p_value(p: float | None) -> str:
    """A p-value as papers print it."""
    if p is None:
        return "–"  # noqa: RUF001 - a dash
    return "p < 0.001" if p < SIGNIFICANT else f"p = {p:.3f}"


def short(text: str | None) -> str:
    """The first 1,500 characters, telling how many are left out."""
    text = text or ""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} more characters)"


def answer(numbers: Numbers) -> str:
    """What the run shows, in one paragraph."""
    return " ".join(_sentences(numbers["heldout"]))


def question(heldout: Numbers) -> str:
    """What a run is asked, by what it trains."""
    more = "answer more questions on databases that training never touched"
    control = "the same time spent on more supervised fine-tuning (the control)"
    if "warmup" not in heldout:
        return f"Does GRPO on verified rewards {more} than {control}, and than before it?"
    return (
        f"Do verified rewards (a warm-up on the policy's own matching answers, then GRPO) {more} than {control}, and "
        "does GRPO add to its warm-up?"
    )


def _sentences(heldout: Numbers) -> Iterator[str]:
    if "questions" not in heldout:
        yield "No held-out question set was evaluated."
        return
    before, start = ("the warm-up", "the warm-up, by GRPO alone") if "warmup" in heldout else ("SFT", "SFT")
    for name, other in (("grpo_vs_control", "the control"), ("grpo_vs_warmup", start)):
        if pair := heldout["comparisons"].get(name):
            clear = "yes" if pair["p"] < SIGNIFICANT else "not clearly"
            yield f"Better than {other}: {clear if pair['difference'] > 0 else 'no'}."
    names = (("base", "untrained base"), ("sft", "SFT"), ("warmup", "warm-up"), ("grpo", "GRPO"))
    steps = [f"{words} {percent(heldout[name]['accuracy'])}" for name, words in names if name in heldout]
    yield (
        f"On {heldout['questions']:,} questions over {heldout['databases']} databases that training never touched, "
        f"greedy answers are right as follows: {', '.join(steps)}."
    )
    if "grpo" in heldout:
        yield f"The last has a 95 % interval of {interval(heldout['grpo']['ci95'])} over databases."
    if (removed := heldout["errors_removed_share"]) is not None:
        what = "Warm-up and GRPO together" if "warmup" in heldout else "GRPO"
        both = "warmup" in heldout
        verb = ("remove" if both else "removes") if removed >= 0 else ("add" if both else "adds")
        alone = heldout["errors_removed_share_by"]["grpo_alone"]
        share = f" (GRPO alone {percent(alone, 0)})" if both and alone is not None else ""
        yield f"{what} {verb} {percent(abs(removed), 0)} of SFT's errors{share}."
    if pair := heldout["comparisons"].get("grpo_vs_control"):
        control = heldout["sft_control"]["accuracy"]
        yield (
            f"The control, which is SFT continued instead, reaches {percent(control)}: {_treatment(heldout)} "
            f"{points(pair['difference'])} from it (95 % interval {points_interval(pair['ci95'])}, "
            f"McNemar {p_value(pair['p'])})."
        )
    if pair := heldout["comparisons"].get("grpo_vs_warmup"):
        yield f"Over {before}, GRPO alone makes {points(pair['difference'])} ({p_value(pair['p'])})."
    written = heldout.get("handwritten", {})
    if "grpo" in written and "sft" in written:
        yield (
            f"On {written['questions']} hand-written questions: SFT {percent(written['sft']['accuracy'])}, "
            f"GRPO {percent(written['grpo']['accuracy'])}."
        )


def _treatment(heldout: Numbers) -> str:
    return "warm-up and GRPO together stand" if "warmup" in heldout else "GRPO stands"


def trained(numbers: Numbers, config: Numbers) -> str:
    """What was trained, and on what, in a few sentences.

    Args:
        numbers: of report.json.
        config: of the run, as run.json keeps it.
    """
    return " ".join(_trained(numbers, config))


def failing(heldout: Numbers) -> str:
    """What the last policy still gets wrong on held-out databases; empty where nothing was evaluated."""
    last = next((name for name in ("grpo", "warmup", "sft", "base") if name in heldout), None)
    if last is None or not heldout[last]["scored"]:
        return ""
    part = heldout[last]
    wrong = part["scored"] - part["correct"]
    causes = sorted((part["causes"] or {}).items(), key=lambda one: -one[1])
    named = ", ".join(f"{count:,} {_CAUSES.get(cause, cause)}" for cause, count in causes[:4])
    said = f"{wrong:,} of {part['scored']:,} answers are wrong: {named}." if wrong else "Nothing."
    weak = [words for words in (_weakest(part, "by_database"), _weakest(part, "by_hardness")) if words]
    return f"{said} Weakest: {'; '.join(weak)}." if weak and wrong else said


_CAUSES = {
    "error": "do not run", "wrong": "give other rows", "row_count": "give far too many or too few rows",
    "empty": "give no rows", "near": "are nearly right", "constant": "read no table", "truncated": "were cut off",
    "no_answer": "hold no SQL", "timeout": "run out of time", "refused": "are refused by the sandbox",
}  # fmt: skip


def _weakest(part: Numbers, key: str) -> str:
    shares = {name: one["correct"] / one["scored"] for name, one in (part[key] or {}).items() if one["scored"]}
    if len(shares) < 2:
        return ""
    name = min(shares, key=lambda one: shares[one])
    return f"{key.removeprefix('by_')} {name} ({percent(shares[name], 0)} right)"


def _trained(numbers: Numbers, config: Numbers) -> Iterator[str]:
    policy = config["policy"]
    if policy.get("kind") == "scratch":
        yield f"A policy from scratch ({policy['layers']} layers of width {policy['hidden_size']})."
    else:
        how = "with LoRA adapters" if policy.get("lora") else "all of its weights"
        yield f"{policy.get('model', 'A pretrained model')}, {how}."
    sft, warm, grpo = numbers["sft"], numbers["warmup"], numbers["grpo"]
    if sft and sft.get("pairs"):
        yield f"Fine-tuned on {sft['pairs']:,} questions with their SQL."
    if warm and warm.get("old_policy_pairs"):
        yield f"Warmed up on {warm['old_policy_pairs']:,} of its own answers that matched."
    if grpo:
        settings = config["grpo"]
        yield (
            f"Then GRPO: {grpo['steps']:,} steps of {settings['questions_per_step']} questions with "
            f"{settings['generations']} answers each, rewarded by rule {numbers['rule']} for what they give when run; "
            "the SQL of these questions is never shown to it."
        )


def warnings(numbers: Numbers) -> list[str]:
    """What a reader should doubt, the gravest first."""
    return [*_missing(numbers), *_doubts(numbers["heldout"]), *_fairness(numbers), *_training(numbers.get("grpo")),
            *_origin(numbers)]  # fmt: skip


def _missing(numbers: Numbers) -> Iterator[str]:
    if numbers["missing"]:
        yield f"The run is not finished: {', '.join(numbers['missing'])} not done."


def _doubts(heldout: Numbers) -> Iterator[str]:
    if "questions" not in heldout:
        return
    both = "warmup" in heldout
    for name, who, other in (
        ("grpo_vs_control", "Warm-up and GRPO together are" if both else "GRPO is", "the control"),
        ("grpo_vs_warmup", "GRPO alone is", "the warm-up that it started from" if both else "the SFT it started from"),
    ):
        pair = heldout["comparisons"].get(name)
        if pair and (pair["difference"] <= 0 or pair["p"] >= SIGNIFICANT):
            what = "not better" if pair["difference"] <= 0 else "not significantly better"
            yield f"{who} {what} than {other}: {points(pair['difference'])}, {p_value(pair['p'])}."
    if heldout["questions"] < _FEW_QUESTIONS or heldout["databases"] < _FEW_DATABASES:
        yield (
            f"{heldout['questions']} questions over {heldout['databases']} databases are few; "
            f"at least {_FEW_QUESTIONS} over at least {_FEW_DATABASES} are what this project asks for."
        )
    for name, part in heldout.items():
        if isinstance(part, Mapping) and part.get("unscored"):
            count, reason = sum(part["unscored"].values()), next(iter(part["unscored"]))
            yield f"{count} answers of {name} could not be judged and are left out: {reason}."


def _fairness(numbers: Numbers) -> Iterator[str]:
    treatment, control = numbers["treatment_minutes"], numbers["control_minutes"]
    if treatment and control is not None and control < treatment:
        yield (
            f"The control got fewer minutes ({control:.1f}) than difficulty, warm-up and GRPO took ({treatment:.1f}); "
            "the comparison favours GRPO."
        )
    if treatment and control is None:
        yield "There is no control, so nothing shows what the same minutes of SFT would have given."


def _training(grpo: Numbers | None) -> Iterator[str]:
    if not grpo:
        return
    yield from grpo.get("signs", ())
    rise = (grpo["end"]["reward"] or 0.0) - (grpo["start"]["reward"] or 0.0)
    dev = [value for _, value in grpo["dev_accuracy"]]
    if len(dev) > 1 and rise > _MOVED and dev[-1] < dev[0] - _MOVED:
        yield (
            f"The reward rose by {rise:.2f} while dev accuracy fell from {percent(dev[0])} to {percent(dev[-1])}: "
            "look for farmed candidates."
        )
    share = grpo["reward_share"]
    if share and share["median"] > _JUDGE_SHARE:
        yield f"Judging takes {percent(share['median'], 0)} of a GRPO step, more than {percent(_JUDGE_SHARE, 0)}."
    unscored = grpo["end"]["kinds"].get("unscored") or 0.0
    if unscored > _MOVED:
        yield f"{percent(unscored, 0)} of GRPO's last groups could not be scored."


def _origin(numbers: Numbers) -> Iterator[str]:
    lineage = numbers["lineage"]
    if (git := lineage["git"]) and git.get("changed_files"):
        yield f"The code was changed after the commit that the run names ({git['changed_files']} files)."
    if lineage["sessions"] > 1:
        yield f"The run was resumed under another version or commit ({lineage['sessions']} sessions)."
