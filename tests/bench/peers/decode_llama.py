"""llama.cpp (PyPI's llama-cpp-python) with fixed lengths: a peer of bench_decode.c.

usage: decode_llama.py GGUF DTYPE BATCH[,BATCH...] [PROMPT NEW REPS]
       decode_llama.py GGUF check <GREEDY   compares ids with a line of bench_decode greedy"""
import ctypes
import json
import statistics
import sys
import time

import llama_cpp as ll
import numpy

BATCH = 2048
LOG = ll.llama_log_callback(lambda *_: None)


class Decoder:
    """Sequences of one length side by side."""

    def __init__(self, path, sequences, tokens, exact=False):
        ll.llama_log_set(LOG, ctypes.c_void_p(0))
        ll.llama_backend_init()
        m = ll.llama_model_default_params()
        c = ll.llama_context_default_params()
        c.n_seq_max = sequences
        c.n_ctx = sequences * ((tokens + 255) // 256 * 256)
        c.n_batch = BATCH
        c.n_threads = c.n_threads_batch = 2
        c.no_perf = True
        if exact:
            c.type_k = c.type_v = ll.GGML_TYPE_F32
        self.model = ll.llama_model_load_from_file(path.encode(), m)
        self.ctx = ll.llama_init_from_model(self.model, c)
        assert self.ctx, "no context"
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))
        self.sampler = ll.llama_sampler_init_dist(3)
        self.batch = ll.llama_batch_init(BATCH, 0, 1)
        view = numpy.ctypeslib.as_array
        self.token = view(self.batch.token, (BATCH,))
        self.pos = view(self.batch.pos, (BATCH,))
        view(self.batch.n_seq_id, (BATCH,))[:] = 1
        self.logits = view(self.batch.logits, (BATCH,))

    def _decode(self, tokens, positions, sequences, wanted):
        n = len(tokens)
        self.batch.n_tokens = n
        self.token[:n], self.pos[:n], self.logits[:n] = tokens, positions, wanted
        for i in range(n):
            self.batch.seq_id[i][0] = int(sequences[i])
        assert ll.llama_decode(self.ctx, self.batch) == 0, "llama_decode failed"

    def _draw(self, greedy, rows):
        if greedy:
            return [int(numpy.ctypeslib.as_array(
                ll.llama_get_logits_ith(self.ctx, i), (self.vocab,)).argmax())
                for i in rows]
        return [ll.llama_sampler_sample(self.sampler, self.ctx, i) for i in rows]

    def prefill(self, prompts, greedy):
        """Whole prompts, as many as a batch takes; the first token of each sequence."""
        ll.llama_memory_clear(ll.llama_get_memory(self.ctx), True)
        first, n = [], prompts.shape[1]
        for at in range(0, len(prompts), BATCH // n):
            part = prompts[at:at + BATCH // n]
            wanted = numpy.zeros(part.shape, numpy.int8)
            wanted[:, -1] = 1
            self._decode(part.ravel(), numpy.tile(numpy.arange(n), len(part)),
                         numpy.repeat(numpy.arange(at, at + len(part)), n),
                         wanted.ravel())
            first += self._draw(greedy, [i * n + n - 1 for i in range(len(part))])
        return first

    def generate(self, prompts, new, greedy=False):
        tokens = [self.prefill(prompts, greedy)]
        sequences = numpy.arange(len(prompts))
        for t in range(new - 1):
            self._decode(tokens[-1], prompts.shape[1] + t, sequences, 1)
            tokens.append(self._draw(greedy, range(len(prompts))))
        return tokens

    def close(self):
        ll.llama_batch_free(self.batch)
        ll.llama_free(self.ctx)
        ll.llama_model_free(self.model)


def check(path):
    line = json.load(sys.stdin)
    prompt = numpy.array([line["prompt"]])
    d = Decoder(path, 1, prompt.size + len(line["ids"]), exact=True)
    ids = [t[0] for t in d.generate(prompt, len(line["ids"]), greedy=True)]
    d.close()
    assert ids == line["ids"], f"llama.cpp: {ids}, here: {line['ids']}"
    print(json.dumps({"what": "greedy", "agree": len(ids)}))


def timed(d, prompts, new):
    began = time.perf_counter()
    d.generate(prompts, new)
    return time.perf_counter() - began


def main(path, dtype, batches="1", prompt=128, new=128, reps=3):
    if dtype == "check":
        check(path)
        return
    prompt, new = int(prompt), int(new)
    for batch in map(int, batches.split(",")):
        d = Decoder(path, batch, prompt + new)
        prompts = numpy.random.default_rng(3).integers(3, d.vocab, (batch, prompt))
        d.generate(prompts, 4)
        one, full = [], []
        for _ in range(int(reps)):
            one.append(timed(d, prompts, 1))
            full.append(timed(d, prompts, new))
        d.close()
        first, whole = statistics.median(one), statistics.median(full)
        print(json.dumps({
            "what": "decode", "dtype": dtype, "batch": batch, "prompt": prompt,
            "new": new, "tok_s": round(batch * new / whole, 2),
            "decode_tok_s": round(batch * (new - 1) / (whole - first), 2),
            "prefill_tok_s": round(batch * prompt / first, 1),
            "versions": [ll.__version__]}), flush=True)


main(*sys.argv[1:])
