#!/usr/bin/env python3
"""Writes a model in Hugging Face's layout as one GGUF file, which llama.cpp serves: $HOME/model.gguf.

The model is the folder MODEL, or what a training has written (OUTPUT_DIR/model), or BASE_MODEL. A file *.gguf in this
folder is served as it is.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import torch

from checkpoints import load_base
from llama import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llama import LlamaConfig

# The pattern by which Llama 3 and its descendants split text before BPE; llama.cpp knows it under this name.
_LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
_UNUSED = 5
_CONTROL, _NORMAL = 3, 1


class MissingModelError(Exception):
    """There is no model to serve."""


def main() -> int:
    """Convert the model. Return 0, or 1 if there is no model or it cannot be converted."""
    try:
        target = Path(os.environ["HOME"], "model.gguf")
        folder = find(os.environ)
        ready = sorted(folder.glob("*.gguf"))
        target.unlink(missing_ok=True)  # of an earlier start of the container
        if ready:
            target.symlink_to(ready[0].absolute())
        else:
            convert(folder, target)
    except (MissingModelError, UnsupportedModelError, OSError) as error:
        sys.stderr.write(f"ERROR: {error}\n")
        return 1
    sys.stdout.write(f"serving {ready[0] if ready else folder}\n")
    return 0


def find(environ: Mapping[str, str]) -> Path:
    """Return the folder of the model. Raises MissingModelError."""
    folders = [Path(environ["OUTPUT_DIR"], "model")]
    if model := environ.get("MODEL", "").strip():
        folders = [Path(model)]
    elif base := environ.get("BASE_MODEL", "").strip():
        folders.append(Path(base))
    for folder in folders:
        if (folder / "config.json").is_file() or any(folder.glob("*.gguf")):
            return folder
    looked = " and ".join(str(folder) for folder in folders)
    key = "MODEL" if "MODEL" in environ else "BASE_MODEL"
    raise MissingModelError(f"no model in {looked}: train one first, with storage that stays, or set {key}")


def convert(folder: Path, target: Path) -> None:
    """Write a model as a GGUF file: matrices in 16 bits, the rest in 32.

    Raises:
        UnsupportedModelError: It is of another architecture, or has a tokenizer that is not known here.
    """
    network = load_base(folder)
    config = network.config
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_name("llm-finetune")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, folder, config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in network.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue  # llama.cpp takes the embeddings
        ordered = _interleaved(name, weight, config)
        values = ordered.to(torch.float16 if ordered.dim() > 1 else torch.float32).contiguous().numpy()
        writer.add_tensor(names.get_name(name, (".weight",)), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(name: str, weight: torch.Tensor, config: LlamaConfig) -> torch.Tensor:
    """Return a weight with the rotated dimensions in pairs, as in llama.cpp; Hugging Face has two halves."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return weight
    return weight.reshape(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, size: int) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    model = tokenizer["model"]
    if model["type"] != "BPE":
        raise UnsupportedModelError(f"{folder}: expected a tokenizer of the type BPE, found {model['type']!r}")
    numbers: dict[str, int] = dict(model["vocab"])
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"] if token["special"]}
    numbers |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = {number: token for token, number in numbers.items()}
    kinds = [
        (_CONTROL if tokens[number] in special else _NORMAL) if number in tokens else _UNUSED for number in range(size)
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_splitting(tokenizer["pre_tokenizer"], folder))
    writer.add_token_list([tokens.get(number, f"[unused{number}]") for number in range(size)])
    writer.add_token_types(kinds)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]])
    for key, add in (("eos_token", writer.add_eos_token_id), ("bos_token", writer.add_bos_token_id)):
        token = config.get(key)
        content = token["content"] if isinstance(token, dict) else token
        if content in numbers:
            add(numbers[content])
    writer.add_add_bos_token("bos_token" in str(tokenizer.get("post_processor")))


def _splitting(pre_tokenizer: Mapping[str, Any], folder: Path) -> str:
    """Return llama.cpp's name for how a tokenizer splits text. Raises UnsupportedModelError."""
    if pre_tokenizer["type"] == "ByteLevel" and pre_tokenizer.get("use_regex", True):
        return "gpt-2"
    steps = pre_tokenizer.get("pretokenizers", [])
    if [step["type"] for step in steps] == ["Split", "ByteLevel"]:
        pattern = str(steps[0]["pattern"].get("Regex"))
        if pattern.startswith(_LLAMA3):
            return "llama-bpe"
    message = "expected a tokenizer of GPT-2 or Llama 3; for another one, put a GGUF file into the folder"
    raise UnsupportedModelError(f"{folder}: {message}")


if __name__ == "__main__":
    sys.exit(main())
