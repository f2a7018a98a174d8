"""Tiny embedding models as GGUF files: random weights, one layer, letters for a vocabulary."""

from pathlib import Path

import gguf
import numpy as np

CONTEXT_TOKENS = 64
DIMS = {"bert": 32, "llama": 64}

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?|-_()"


def write_bert(path: Path, *, seed: int = 0, pooling: int = gguf.PoolingType.MEAN) -> Path:
    """Write a model that attends to the whole text, up to 64 tokens."""
    dims = DIMS["bert"]
    letters = [f"▁{letter}" for letter in _LETTERS] + list(_LETTERS)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    writer = _writer(path, "bert", dims)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType(pooling))
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 5 + [1] * len(letters))
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    writer.add_sep_token_id(3)
    writer.add_mask_token_id(4)
    shapes = {
        "token_embd.weight": (len(tokens), dims),
        "token_types.weight": (2, dims),
        "position_embd.weight": (CONTEXT_TOKENS, dims),
        **_linear("blk.0.ffn_up", 2 * dims, dims),
        **_linear("blk.0.ffn_down", dims, 2 * dims),
    }
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        shapes |= _linear(f"blk.0.{name}", dims, dims)
    for name in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        shapes |= {f"{name}.weight": (dims,), f"{name}.bias": (dims,)}
    return _write(writer, path, shapes, seed)


def write_llama(path: Path, *, seed: int = 0) -> Path:
    """Write a model that was not made for embeddings and declares no pooling."""
    dims = DIMS["llama"]
    raw = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *raw, "▁", *_LETTERS]
    writer = _writer(path, "llama", dims)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(dims // 2)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (1 + len(_LETTERS)))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(tokens), dims),
        "output.weight": (len(tokens), dims),
        "blk.0.ffn_gate.weight": (2 * dims, dims),
        "blk.0.ffn_up.weight": (2 * dims, dims),
        "blk.0.ffn_down.weight": (dims, 2 * dims),
    }
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        shapes[f"{name}.weight"] = (dims,)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        shapes[f"blk.0.{name}.weight"] = (dims, dims)
    return _write(writer, path, shapes, seed)


def _writer(path: Path, architecture: str, dims: int) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(dims)
    writer.add_feed_forward_length(2 * dims)
    writer.add_block_count(1)
    writer.add_head_count(2)
    return writer


def _linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def _write(
    writer: gguf.GGUFWriter, path: Path, shapes: dict[str, tuple[int, ...]], seed: int
) -> Path:
    random = np.random.default_rng(seed)
    for name, shape in shapes.items():
        weights = random.standard_normal(shape).astype(np.float32)
        writer.add_tensor(name, 1 + 0.1 * weights if name.endswith("norm.weight") else weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
