"""The Python that the documents show runs as shown, and prints what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SHOWN = [
    pytest.param(match[1], match[2], id=f"{page.name}: {number}")
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    for number, match in enumerate(
        re.finditer(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    )
]


def test_the_verifier_is_shown_in_python() -> None:
    assert len(SHOWN) >= 2


@pytest.mark.parametrize(("code", "output"), SHOWN)
def test_python_in_the_documents_runs(code: str, output: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.stderr, done.stdout) == ("", output)
