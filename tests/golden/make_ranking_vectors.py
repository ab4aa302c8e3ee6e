#!/usr/bin/env python3
"""Write rankings.jsonl: judgements, rankings, and the measures that trec_eval gives them.

    make_ranking_vectors.py > rankings.jsonl      (needs pytrec_eval-terrier 0.5.11, numpy)

A row is one query: {"judged": {document: grade}, "ids": documents, best first, "k",
"recall", "success", "reciprocal_rank", "ndcg"}. Where MRR@k is asked for, BEIR cuts the
ranking after k documents and so does this program: recip_rank itself has no k.
"""
import json
import random

import pytrec_eval


def measure(judged, ids, k):
    names = {"recall_%d" % k, "success_%d" % k, "recip_rank", "ndcg_cut_%d" % k}
    run = {name: float(len(ids) - i) for i, name in enumerate(ids[:k])}
    got = pytrec_eval.RelevanceEvaluator({"q": judged}, names).evaluate({"q": run})["q"]
    return {"recall": got["recall_%d" % k], "success": got["success_%d" % k],
            "reciprocal_rank": got["recip_rank"], "ndcg": got["ndcg_cut_%d" % k]}


def make_case(rng):
    names = ["d%d" % i for i in range(rng.choice([5, 30, 400]))]
    grades = rng.choice([[0, 1], [1], [0, 1, 2, 3], [0, 0, 0, 7], [0]])
    judged = {name: rng.choice(grades)
              for name in rng.sample(names, rng.randint(1, min(25, len(names))))}
    ids = rng.sample(names, rng.randint(1, min(40, len(names))))
    return judged, ids, rng.choice([1, 2, 3, 5, 10, 20, 100])


def main():
    rng = random.Random(42)
    for _ in range(300):
        judged, ids, k = make_case(rng)
        print(json.dumps({"judged": judged, "ids": ids, "k": k, **measure(judged, ids, k)}))


if __name__ == "__main__":
    main()
