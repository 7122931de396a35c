"""What validation found, as counts for people and as lines for machines.

In: one `Finding` a question. Out: counts by reject and by flag, and a JSONL file of all questions that have any, which
`data/exclude.yaml` may name. Not here: finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from text2sql_rl.exclusions import FLAGS
from text2sql_rl.records import Question

# Why a gold is rejected, and in words.
REJECTS: Mapping[str, str] = MappingProxyType(
    {
        "repeated_id": "another question has its id",
        "no_database": "its database is not there or cannot be read",
        "refused": "the gold is not one read-only SELECT, or does what the sandbox refuses",
        "error": "the gold does not run",
        "timeout": "the gold runs out of time",
        "memory": "the gold runs out of memory",
        "too_large": "the gold's answer is too large",
        "fault": "the sandbox failed on it",
        "not_deterministic": "the gold gives another answer when it runs again or the rows are stored in another order",
        "below_maximum": "the gold does not earn the rule's maximum",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is known of one question.

    `reject` is a key of `REJECTS`, or empty, `reason` its words; `flags` are keys of `FLAGS`. `mutants` wrong versions
    of the gold ran on the real rows, `told` of them gave another answer. `near` is the other of two near duplicates.
    """

    question: Question
    reject: str = ""
    reason: str = ""
    flags: tuple[str, ...] = ()
    mutants: int = 0
    told: int = 0
    near: str = ""

    def as_json(self) -> dict[str, Any]:
        """One line of the file of flags."""
        record: dict[str, Any] = {
            "id": self.question.id,
            "split": self.question.split.value,
            "role": self.question.role,
            "database": self.question.database,
        }
        if self.reject:
            record |= {"reject": self.reject, "reason": self.reason}
        if self.flags:
            record["flags"] = list(self.flags)
        if self.mutants:
            record |= {"mutants": self.mutants, "told": self.told}
        return record | ({"near": self.near} if self.near else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, in the order of the questions; `shared` are databases by the splits that use them."""

    rule: str
    findings: tuple[Finding, ...]
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    elapsed_s: float = 0.0

    @property
    def rejected(self) -> tuple[Finding, ...]:
        """Those that cannot be used."""
        return tuple(one for one in self.findings if one.reject)

    def marked(self) -> tuple[Finding, ...]:
        """Those that are rejected or flagged."""
        return tuple(one for one in self.findings if one.reject or one.flags)

    def as_json(self) -> dict[str, Any]:
        """{rule, questions, clean, rejected, rejects, flags, mutants, shared_databases, seconds} for json.dumps."""
        rejects = Counter(one.reject for one in self.rejected)
        flags = Counter(flag for one in self.findings if not one.reject for flag in one.flags)
        return {
            "rule": self.rule,
            "questions": len(self.findings),
            "clean": len(self.findings) - len(self.marked()),
            "rejected": len(self.rejected),
            "rejects": {code: rejects[code] for code in REJECTS if rejects[code]},
            "flags": {flag: flags[flag] for flag in FLAGS if flags[flag]},
            "mutants": {
                "made": sum(one.mutants for one in self.findings),
                "told_apart": sum(one.told for one in self.findings),
            },
            "shared_databases": {name: list(splits) for name, splits in self.shared.items()},
            "seconds": round(self.elapsed_s, 1),
        }

    def lines(self, most: int = 20) -> Iterator[str]:
        """The counts in words, then up to `most` rejected golds with their reasons."""
        counts = self.as_json()
        yield (
            f"{counts['questions']} questions checked under rule {self.rule}: {counts['clean']} without a remark, "
            f"{len(self.marked()) - counts['rejected']} flagged (usable, but weak evidence), {counts['rejected']} "
            "rejected (their gold cannot judge an answer)"
        )
        for title, found, words in (("rejected", counts["rejects"], REJECTS), ("flagged", counts["flags"], FLAGS)):
            for code, number in found.items():
                yield f"  {title:<9}{number:>6}  {code:<20} {words[code]}"
        made, told = counts["mutants"]["made"], counts["mutants"]["told_apart"]
        if made:
            yield f"  {told} of {made} wrong versions of the golds give another answer on the real rows"
        for one in self.rejected[:most]:
            yield f"{one.question.id} ({one.question.database}) {one.reject}: {' '.join(one.reason.split())}"
        if len(self.rejected) > most:
            yield f"and {len(self.rejected) - most} more"
