"""A prompt that does not fit is never cut and never asked: what stands in place of its answer, and how length is told.

In: a prompt, its tokens, the limit. Out: a completion that holds no SQL, only the reason. Not here: which tokenizer
counts (`hf.py` has a model's own).
"""

from __future__ import annotations

from text2sql_rl.records import Completion, Finish, Prompt

# Of English and SQL under the vocabularies of today's models, on the long side: 3.2 to 3.9 were measured.
CHARACTERS_PER_TOKEN = 3


def estimated_tokens(text: str) -> int:
    """The tokens of a text where no tokenizer is at hand: one for 3 characters."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def unasked(prompt: Prompt, tokens: int, limit: int) -> Completion:
    """What a policy that was not asked said: the reason, and no SQL."""
    return Completion(
        question_id=prompt.question_id,
        text=f"not asked: the prompt has {tokens} tokens, more than max_prompt_tokens = {limit}",
        raw="",
        finish=Finish.STOP,
        tokens=0,
        prompt_sha256=prompt.sha256,
    )
