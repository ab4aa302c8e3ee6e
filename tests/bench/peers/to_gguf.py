"""A Qwen3 model folder as one GGUF file for llama.cpp, without a vocabulary: weights keep
their type, norms are fp32.

usage: to_gguf.py FOLDER OUT"""
import json
import struct
import sys

import gguf
import numpy

TYPES = {"F32": (numpy.float32, gguf.GGMLQuantizationType.F32),
         "BF16": (numpy.uint16, gguf.GGMLQuantizationType.BF16)}
NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
       "lm_head": "output"}


def read_tensors(path):
    """(name, type, array) of each tensor of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = numpy.memmap(path, numpy.uint8, "r", f.tell())
    for name, at in header.items():
        if name != "__metadata__":
            begin, end = at["data_offsets"]
            yield name, at["dtype"], data[begin:end].view(
                TYPES[at["dtype"]][0]).reshape(at["shape"])


def gguf_name(name):
    name = name.removesuffix(".weight")
    if name in TOP:
        return TOP[name] + ".weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def write_config(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("none")


def main(folder, out):
    with open(folder + "/config.json", encoding="utf-8") as f:
        config = json.load(f)
    w = gguf.GGUFWriter(out, "qwen3")
    write_config(w, config)
    for name, dtype, array in read_tensors(folder + "/model.safetensors"):
        kind = TYPES[dtype][1]
        if array.ndim == 1 and dtype == "BF16":
            array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
            kind = gguf.GGMLQuantizationType.F32
        raw = array.view(numpy.uint8) if dtype == "BF16" and array.ndim > 1 else array
        w.add_tensor(gguf_name(name), raw, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main(*sys.argv[1:])
