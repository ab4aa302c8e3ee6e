#!/usr/bin/env python3
"""Write reward.jsonl: what the rewards are in plain Python, and the text metrics by
sacrebleu and rouge-score.

    make_reward_vectors.py > reward.jsonl      (pip install sacrebleu==2.6.0 rouge-score==0.1.2)

Every line is an object with a "kind":
    case       every character that str.lower changes, as pairs [text, lower]
    lower      text, lower (str.lower, final sigma included)
    normalize  text, normalized (Search-R1's normalize_answer)
    match      answer, truths, em, sub, f1 (Search-R1's em_check, subem_check; SQuAD's F1)
    answer     answer, truths, score (the seed's check_answer_correctness, best of several)
    metrics    answer, truths; bleu: sacrebleu's sentence score with effective order and the
               smoothing "exp"; rouge1, rouge2, rougeL: rouge-score's F, the best truth's;
               of tokens that are cut here and joined by spaces
    format     text, well_formed by the seed's five rules, closed: with think tags in pairs
Rewards are written from the definitions (regular expressions, Counter, difflib), not from
the C code.
"""
import collections
import difflib
import json
import random
import re
import string
import sys
import unicodedata

import rouge_score.rouge_scorer
import sacrebleu

NO_CONTENT = "未找到相关内容"


TAGS = re.compile(r"</?(?:search|information|answer)>")
WHOLE = re.compile(r"(?:<search></search><information></information>)*<answer></answer>")
PARTS = ["<think>", "</think>", "<think>", "</think>", "<search>", "</search>",
         "<search>q</search>", "<information>d</information>", "<answer>", "</answer>",
         "<answer>a</answer>", "<search>q</search><information>d</information>", "x", " \n"]


def format_row(rng):
    text = "".join(rng.choices(PARTS, k=rng.randint(0, 4)))
    text += rng.choice(["", "<answer>a</answer>", "<answer>a</answer> "])
    rest = re.sub("<think>.*?</think>", "", text, flags=re.S)
    good = (WHOLE.fullmatch("".join(TAGS.findall(rest))) is not None
            and re.search(r"</answer>\s*\Z", rest) is not None)
    closed = good and "<think>" not in rest and "</think>" not in rest
    return {"kind": "format", "text": text, "well_formed": good, "closed": closed}


def normalize(s):
    s = s.lower()
    s = "".join(c for c in s if c not in set(string.punctuation))
    s = re.sub(r"\b(a|an|the)\b", " ", s)
    return " ".join(s.split())


def f1(answer, truth):
    a, t = normalize(answer).split(), normalize(truth).split()
    if not a or not t:
        return float(a == t)
    same = sum((collections.Counter(a) & collections.Counter(t)).values())
    if same == 0:
        return 0.0
    p, r = same / len(a), same / len(t)
    return 2 * p * r / (p + r)


def seed_score(answer, truth):
    answer_ = re.sub(r"<think>.*?</think>", "", answer, flags=re.S)
    if answer_ != answer:
        answer = answer_.strip()
    if not answer:
        return 0.0
    if answer == truth:
        return 2.0
    if answer == NO_CONTENT:
        return 0.5
    a = re.sub(r"\s+", "", answer).lower()
    t = re.sub(r"\s+", "", truth).lower()
    if not a:
        return 0.0
    return 1.0 if difflib.SequenceMatcher(None, a, t).ratio() >= 0.5 else 0.0


def is_cjk(c):
    c = ord(c)
    return (0x3041 <= c <= 0x30FF or 0x31F0 <= c <= 0x31FF or 0x3400 <= c <= 0x4DBF
            or 0x4E00 <= c <= 0x9FFF or 0xF900 <= c <= 0xFAFF or 0xFF66 <= c <= 0xFF9F
            or 0x20000 <= c <= 0x323AF)


def tokens(s):
    out, word = [], ""
    for c in s.lower() + " ":
        part = unicodedata.category(c)[0] in "LMN"
        if part and not is_cjk(c):
            word += c
            continue
        if word:
            out.append(word)
        word = ""
        if part and unicodedata.category(c)[0] != "M":
            out.append(c)
    return out


class Spaces:
    """Tokens that were joined by spaces, for rouge-score."""
    @staticmethod
    def tokenize(text):
        return text.split()


BLEU = sacrebleu.BLEU(tokenize="none", smooth_method="exp", effective_order=True)
ROUGE = rouge_score.rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=Spaces())


def metrics(answer, truths):
    a, t = " ".join(tokens(answer)), [" ".join(tokens(x)) for x in truths]
    rouge = ROUGE.score_multi(t, a)
    return {"bleu": BLEU.sentence_score(a, t).score / 100,
            **{name: score.fmeasure for name, score in rouge.items()}}


def emit(kind, **fields):
    print(json.dumps(dict(kind=kind, **fields), ensure_ascii=False, separators=(",", ":")))


WORDS = ["the", "The", "a", "an", "AN", "cat", "Cat's", "U.S.A.", "don't", "a–b", "The_end",
         "x-ray", "1,000", "3½", "Σίσυφος", "ΟΔΟΣ", "İstanbul", "straße", "ﬁn", "café",
         "cafe\u0301", "a\u0301", "北京", "东京都", "\u00a0", "\u3000", "\t", "Ⅳ", "²",
         "\U0001f600", "_", "the-", "(a)", "an.", "New", "York", "new york", "...", "of",
         "\x1c", "\u200b", "ǅ", "Ａ", "٣", "क्षि", "かな", "カナ", "ー", "한국"]


def sentence(rng, most):
    return "".join(rng.choice(WORDS) + rng.choice([" ", " ", " ", "", "  "])
                   for _ in range(rng.randint(0, most)))


def reworded(rng, s):
    w = s.split(" ")
    for _ in range(rng.randint(0, 3)):
        if w:
            w[rng.randrange(len(w))] = rng.choice(WORDS)
    if rng.random() < 0.3:
        w = [x.upper() if rng.random() < 0.5 else x for x in w]
    return " ".join(w)


def truths_for(rng, answer):
    return [reworded(rng, answer) if rng.random() < 0.7 else sentence(rng, 6)
            for _ in range(rng.choice([1, 1, 1, 2, 3]))]


def main():
    rng = random.Random(20261121)
    changed = [[chr(c), chr(c).lower()] for c in range(sys.maxunicode + 1)
               if not 0xD800 <= c < 0xE000 and chr(c).lower() != chr(c)]
    emit("case", pairs=changed)
    sigma = "Σσς A.a':\u0301\u00ad-1ªⅳ中İ"
    for _ in range(400):
        s = "".join(rng.choice(sigma) for _ in range(rng.randint(1, 9)))
        emit("lower", text=s, lower=s.lower())
    for s in ["The U.S.A.", "a–b", "don't", "a\u00a0b", "", "the", " A an THE ", "thea the_a",
              string.punctuation + "x"]:
        emit("normalize", text=s, normalized=normalize(s))
    for _ in range(500):
        s = sentence(rng, 8)
        emit("normalize", text=s, normalized=normalize(s))
    for _ in range(500):
        a = sentence(rng, 6)
        t = truths_for(rng, a)
        n = [normalize(x) for x in t]
        emit("match", answer=a, truths=t, em=float(normalize(a) in n),
             sub=float(any(x in normalize(a) for x in n)), f1=max(f1(a, x) for x in t))
    fixed = [("", [""]), ("Paris", ["Paris"]), ("paris", ["Paris"]), (" Paris", ["Paris"]),
             ("P a r i s", ["Paris"]), ("London", ["Paris"]), ("Pariss", ["Paris"]),
             (NO_CONTENT, ["x"]), (NO_CONTENT, [NO_CONTENT]), (NO_CONTENT, ["未找到相关内"]),
             ("\u3000 ", ["Paris"]), ("<think>x</think> Paris", ["Paris"]),
             ("<think>Paris", ["Paris"]), ("<think>Paris</think>", ["Paris"]),
             ("a<think>b</think>c</think>d<think>e</think>", ["ac</think>d"]),
             ("ab", ["abcdef"]), ("ab", ["abcdefg"]), ("北京市", ["北京"]), ("x", ["y", "x"]),
             ("tide", ["diet"]), ("diet", ["tide"])]
    for a, t in fixed:
        emit("answer", answer=a, truths=t, score=max(seed_score(a, x) for x in t))
    for _ in range(600):
        a = sentence(rng, 6)
        t = truths_for(rng, a)
        emit("answer", answer=a, truths=t, score=max(seed_score(a, x) for x in t))
    for k in range(500):
        a = sentence(rng, 14)
        t = truths_for(rng, a)
        if k % 10 == 0:
            t.append(a)
        emit("metrics", answer=a, truths=t, **metrics(a, t))
    kept, wanted = {}, {(False, False): 150, (True, False): 150, (True, True): 100}
    while any(len(kept.get(k, {})) < n for k, n in wanted.items()):
        row = format_row(rng)
        some = kept.setdefault((row["well_formed"], row["closed"]), {})
        if len(some) < wanted[row["well_formed"], row["closed"]] and row["text"] not in some:
            some[row["text"]] = row
            emit(**row)


if __name__ == "__main__":
    main()
