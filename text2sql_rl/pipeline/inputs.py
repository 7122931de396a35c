"""What a run will read, looked at before its folder is made: the rule, the question sets, and that every gold runs.

In: a config. Out: nothing, or the first thing that is wrong, with its file, field and fix. Golds are bound, not run:
a missing table or column, or a type that does not fit, is found in seconds. Not here: golds that fail on some rows,
take too long or are not deterministic; their rollouts are unscored and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import duckdb

from text2sql_rl.config import RunConfig, content_root
from text2sql_rl.content import Content, open_content
from text2sql_rl.databases import open_read_only
from text2sql_rl.errors import DataError, GoldError, LeakError
from text2sql_rl.questions import question_file
from text2sql_rl.records import Question, Split
from text2sql_rl.scoring import load_rule

_TRAINING = ("sft", "rl", "dev")


def check_inputs(config: RunConfig) -> None:
    """Refuse what would end the run later.

    Raises:
        ConfigError: no such rule, or one that breaks what rules must hold.
        DataError: a question set or a database is missing, empty or malformed.
        LeakError: a database in two splits, or a set to evaluate on a training database.
        GoldError: a gold that is not one SELECT, or does not fit its database.
    """
    load_rule(config.judge.rule)
    content = open_content()
    for role in dict.fromkeys((*_TRAINING, *config.evaluate.roles)):
        questions = content.questions.role(role)
        if not questions:
            raise DataError(f"the question set {role!r} is empty", fix="Write or synthesize questions.")
        if role in config.evaluate.roles and questions[0].split is Split.TRAIN:
            raise LeakError(
                f"the set {role!r} is a training set", field="evaluate.roles", fix="Evaluate on held-out databases."
            )
        _bind_golds(content, questions)


def _bind_golds(content: Content, questions: Sequence[Question]) -> None:
    def of_database(question: Question) -> str:
        return question.database

    for name, asked in groupby(sorted(questions, key=of_database), key=of_database):
        with open_read_only(content.store.get(name).instances[0].path) as connection:
            # Several wordings share a gold.
            for question in {question.gold_sql: question for question in asked}.values():
                if problem := _fault(connection, question.gold_sql):
                    raise GoldError(
                        f"the gold of question {question.id} does not run ({problem})",
                        file=question_file(content_root() / "data", question),
                        field="gold_sql",
                        fix="Correct it there, or remove the question.",
                    )


def _fault(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            return "it is not one SELECT"
        connection.sql(statements[0].query)  # binds names and types; nothing runs until rows are asked for
    except duckdb.Error as error:
        return str(error).strip().split("\n")[0]
    return ""
