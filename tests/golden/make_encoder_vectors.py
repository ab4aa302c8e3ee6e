#!/usr/bin/env python3
"""Write tests/golden/encoder/<case>/: small random encoders and what transformers computes
with them.

    python3 tests/golden/make_encoder_vectors.py OUT_FOLDER   (torch 2.11.0, transformers 5.23.0)

A case holds the model folder itself (config.json, safetensors, tokenizer.json) and
  expected.json         texts [n] (cross-encoders: query and texts), ids [n][], types [n][]
  expected.safetensors  hidden.<i> [T, E] of text i; mean, cls [n, E]; dpr: output [n, dim];
                        decoder [n, E], the decoder's first state; score [n]
Each text goes through the model alone, in float32, also where stored weights are narrower.
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel,
                          DPRConfig, DPRContextEncoder, DPRQuestionEncoder, T5Config,
                          T5EncoderModel, T5Model)

WORDS = "the who what where is was in of and a tower river stands paris rome built old".split()
TEXTS = [
    "Who built the old tower in Paris?",
    "the river",
    "Rome",
    "What stands in Rome, and where is the tower of Paris? " * 3,
    "where was the tower",
    "Was the river in Rome old?",
]
LONG = "The tower stands in Rome and the river is in Paris. " * 8

BERT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=160, type_vocab_size=2)
T5 = dict(d_model=32, d_kv=12, d_ff=48, num_layers=2, num_heads=4, num_decoder_layers=3,
          decoder_start_token_id=0)

# name: class, config class, what departs from the shapes above; "dtype" of the file
CASES = {
    "bert-gelu": (BertModel, BertConfig, dict(BERT)),
    "bert-prefix": (BertForMaskedLM, BertConfig, dict(BERT, hidden_act="gelu_new")),
    "bert-relu-bf16": (BertModel, BertConfig,
                       dict(BERT, hidden_act="relu", num_attention_heads=2, dtype="bfloat16")),
    "bert-fp16": (BertModel, BertConfig, dict(BERT, dtype="float16")),
    "dpr-question": (DPRQuestionEncoder, DPRConfig, dict(BERT)),
    "dpr-context": (DPRContextEncoder, DPRConfig, dict(BERT, projection_dim=20)),
    "t5-relu": (T5Model, T5Config, dict(T5)),
    "t5-gated": (T5Model, T5Config, dict(T5, feed_forward_proj="gated-gelu", d_kv=8,
                                         relative_attention_num_buckets=16)),
    "t5-encoder": (T5EncoderModel, T5Config, dict(T5, feed_forward_proj="gated-gelu")),
    "cross-encoder": (BertForSequenceClassification, BertConfig, dict(BERT, num_labels=1)),
}


def wordpiece():
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters),
             *",.?!", *(w for w in WORDS if len(w) > 1), "##er", "##ed"]
    tok = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocab)}, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok


def unigram():
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.decoder = decoders.Metaspace()
    tok.train_from_iterator([LONG, *TEXTS], trainers.UnigramTrainer(
        vocab_size=80, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
        show_progress=False))
    tok.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tok


def randomize(model):
    """Fresh norms are 1 and biases 0, which would hide mistakes."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name.lower() and name.endswith("weight"):
                p.copy_(1 + 0.2 * torch.randn_like(p))
            elif name.endswith(".bias") or "attention_bias" in name:
                p.copy_(0.3 * torch.randn_like(p))
            elif "embed" in name or "shared" in name:
                p.copy_(0.7 * torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (1.2 / p.shape[-1] ** 0.5))


def body(model):
    """The part whose output is the hidden states."""
    for name in ("bert", "question_encoder", "ctx_encoder", "encoder"):
        if name in dict(model.named_children()) and not isinstance(model, BertModel):
            inner = getattr(model, name)
            return getattr(inner, "bert_model", inner)
    return model


def outputs(model, ids, types):
    """Of one text: its hidden states, and by name what else the model gives."""
    ids = torch.tensor([ids])
    extra = {} if isinstance(model, (T5Model, T5EncoderModel)) else dict(token_type_ids=torch.tensor([types]))
    hidden = body(model)(input_ids=ids, **extra).last_hidden_state[0]
    found = {"mean": hidden.mean(0), "cls": hidden[0]}
    if isinstance(model, (DPRQuestionEncoder, DPRContextEncoder)):
        found["output"] = model(input_ids=ids, **extra).pooler_output[0]
    if isinstance(model, T5Model):
        found["decoder"] = model(input_ids=ids, decoder_input_ids=torch.zeros(1, 1, dtype=torch.long)
                                 ).last_hidden_state[0, 0]
    if isinstance(model, BertForSequenceClassification):
        found["score"] = model(input_ids=ids, **extra).logits[0, 0]
    return hidden, found


def expected(model, tok, pairs):
    texts = [*TEXTS, LONG]
    query = TEXTS[0]
    codes = [tok.encode(query, t) if pairs else tok.encode(t) for t in texts]
    facts = dict(texts=texts, ids=[c.ids for c in codes], types=[c.type_ids for c in codes])
    if pairs:
        facts["query"] = query
    tensors, rows = {}, {}
    with torch.no_grad():
        for i, c in enumerate(codes):
            hidden, found = outputs(model, c.ids, c.type_ids)
            tensors["hidden.%d" % i] = hidden
            for name, v in found.items():
                rows.setdefault(name, []).append(v)
    tensors.update({name: torch.stack(v) for name, v in rows.items()})
    return facts, tensors


def main():
    root = sys.argv[1]
    for number, (name, (cls, config, own)) in enumerate(CASES.items()):
        torch.manual_seed(2000 + number)
        out = os.path.join(root, name)
        shutil.rmtree(out, ignore_errors=True)
        tok = unigram() if config is T5Config else wordpiece()
        own = dict(own)
        dtype = getattr(torch, own.pop("dtype", "float32"))
        model = cls(config(vocab_size=tok.get_vocab_size(), **own)).float().eval()
        randomize(model)
        model.to(dtype).save_pretrained(out)
        tok.save(os.path.join(out, "tokenizer.json"))
        model = cls.from_pretrained(out, dtype=torch.float32).eval()
        facts, tensors = expected(model, tok, cls is BertForSequenceClassification)
        with open(os.path.join(out, "expected.json"), "w") as f:
            json.dump(facts, f)
            f.write("\n")
        save_file({k: v.float().contiguous() for k, v in tensors.items()},
                  os.path.join(out, "expected.safetensors"))
        print(name, "longest", max(map(len, facts["ids"])), {k: list(v.shape) for k, v in tensors.items()},
              "sd %.3f" % tensors["mean"].std())


main()
