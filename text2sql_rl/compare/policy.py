"""The comparison policy in names and values, so that a rule file can declare the one it was written for.

In: nothing. Out: `POLICY`. It configures nothing: it says in short what cells.py, rows.py, columns.py and typed.py do,
and changes with them. A rule file that declares another policy is refused by the judge.
"""

from __future__ import annotations

from collections.abc import Mapping

from text2sql_rl.compare.numbers import ABSOLUTE, RELATIVE

POLICY: Mapping[str, str | float] = {
    "rows": "bag",
    "duplicates": "matter",
    "row_order": "on_the_golds_sort_keys",
    "ties": "any_order",
    "limit_in_a_tie": "any_legal_choice",
    "column_names": "ignored_in_the_golds_order",
    "column_order": "as_names_or_kinds_tell",
    "column_count": "exact",
    "nulls": "equal_nulls_only",
    "nan": "equals_nan",
    "text": "exact_after_nfc",
    "dates": "instants",
    "number_relative": RELATIVE,
    "number_absolute": ABSOLUTE,
    "both_empty": "match_when_shapes_agree",
    "constants": "never_answer_a_gold_that_reads",
}


def differences(declared: Mapping[str, str | float]) -> tuple[str, ...]:
    """Where a declared policy is not this one, a line each; empty when it is."""
    return tuple(
        f"{name} is {POLICY.get(name, 'nothing known')} here, the rule says {declared.get(name, 'nothing')}"
        for name in dict.fromkeys((*POLICY, *declared))
        if POLICY.get(name) != declared.get(name)
    )
