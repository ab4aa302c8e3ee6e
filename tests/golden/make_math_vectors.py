#!/usr/bin/env python3
"""Write math_scores.jsonl: worked solutions to mathematical problems, and what verl's
compute_score of gsm8k.py, math_reward.py and math_dapo.py gives them; answers: the text that
each of them compares, by the same code, "" where it finds none.

    make_math_vectors.py > math_scores.jsonl      (peer_sources.py: what it needs)

The ground truth that gsm8k.py gets is without commas, as verl's script for that data set
(examples/data_preprocess/gsm8k.py) writes it.
"""
import json
import random

from peer_sources import VERL, execute, source


def scorer(name):
    """The whole file, without what it prints of its own errors."""
    body = source("verl", f"utils/reward_score/{name}.py").body
    return execute(body, {"print": lambda *words: None}, name)


GSM8K, MATH, DAPO = (scorer(name) for name in ("gsm8k", "math_reward", "math_dapo"))


def math_answer(solution):
    """What is_equiv of math_reward.py compares of a solution."""
    try:
        answer = MATH.remove_boxed(MATH.last_boxed_only_string(solution))
    except Exception:  # as compute_score
        return ""
    try:
        return MATH.strip_string(answer)
    except Exception:  # as is_equiv
        return answer


# solution, ground truth
CASES = [
    # gsm8k
    ("6 * 3 = <<6*3=18>>18\n#### 18", "18"),
    ("#### 1,080", "1080"),
    ("#### 1,080", "1,080"),
    ("#### 1080", "1,080"),
    ("#### -5", "-5"),
    ("#### --5", "-5"),
    ("#### $18", "18"),
    ("####18", "18"),
    ("##### 18", "18"),
    ("#### 18.", "18"),
    ("#### 18.0", "18"),
    ("#### 18 apples", "18"),
    ("#### 17\n#### 18", "18"),
    ("#### 18\n#### none", "18"),
    ("#### #### 18", "18"),
    ("#### -", "-"),
    ("#### ,", "18"),
    ("#### 18" + "x" * 292, "18"),
    ("#### 18" + "x" * 293, "18"),
    ("#### 18" + "x" * 294, "18"),
    ("#### 18" + "\u00e9" * 293, "18"),
    ("#### 18" + "\u00e9" * 294, "18"),
    ("#### \u0661\u0668", "18"),
    ("", "18"),
    # boxes
    ("So it is \\boxed{18}.", "18"),
    ("\\boxed{17} and \\boxed{18}", "18"),
    ("\\boxed{18} and \\boxed{17", "18"),
    ("\\boxed{\\frac{1}{2}}", "\\frac12"),
    ("\\boxed{{18}}", "{18}"),
    ("\\boxed{}", ""),
    ("\\boxed 18$ is it", "18"),
    ("\\boxed 18", "18"),
    ("\\boxed{17} \\boxed 18$", "18"),
    ("\\boxed 18$ then \\boxed{17}", "18"),
    ("\\boxed18", "18"),
    ("\\boxed{18} \\boxed18", "18"),
    ("\\boxed}18{}", "18"),
    ("\\fbox{18}", "18"),
    ("\\fbox{17} \\boxed{18}", "18"),
    ("\\boxed{18}" + "." * 90, "18"),
    ("\\boxed{18}" + "." * 91, "18"),
    ("\\boxed{18}" + "." * 290, "18"),
    ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
    ("\\boxed{1}\\boxed{\\}", "1"),
    # as MATH writes numbers
    ("\\boxed{0.5}", "\\frac{1}{2}"),
    ("\\boxed{.5}", "0.5"),
    ("\\boxed{1/2}", "\\frac{1}{2}"),
    ("\\boxed{-1/2}", "\\frac{-1}{2}"),
    ("\\boxed{01/2}", "\\frac{01}{2}"),
    ("\\boxed{1/-2}", "\\frac{1}{-2}"),
    ("\\boxed{-0/2}", "\\frac{-0}{2}"),
    ("\\boxed{0/2}", "\\frac{0}{2}"),
    ("\\boxed{1/2/3}", "1/2/3"),
    ("\\boxed{a/b}", "\\frac{a}{b}"),
    ("\\boxed{1_0/2}", "1_0/2"),
    ("\\boxed{+1/2}", "\\frac{+1}{2}"),
    ("\\boxed{" + "1" * 4300 + "/2}", "\\frac{" + "1" * 4300 + "}{2}"),
    ("\\boxed{" + "1" * 4301 + "/2}", "\\frac{" + "1" * 4301 + "}{2}"),
    ("\\boxed{x=5}", "5"),
    ("\\boxed{xy=5}", "5"),
    ("\\boxed{x =5}", "5"),
    ("\\boxed{\u00e9\u00e9=5}", "5"),
    ("\\boxed{abc=5}", "5"),
    ("\\boxed{x=y=5}", "5"),
    ("\\boxed{x=}", ""),
    ("\\boxed{\\sqrt3}", "\\sqrt{3}"),
    ("\\boxed{\\sqrt 3}", "\\sqrt{}3"),
    ("\\boxed{\\sqrt\\pi}", "\\sqrt{\\pi}"),
    ("\\boxed{\\sqrt}", "\\sqrt"),
    ("\\boxed{\\sqrt\\sqrt2}", "\\sqrt\\sqrt2"),
    ("\\boxed{\\sqrt\\sqrt2 }", "\\sqrt\\sqrt2"),
    ("\\boxed{\\sqrt\u00e92}", "\\sqrt{\u00e9}2"),
    ("\\boxed{\\frac1b}", "\\frac{1}{b}"),
    ("\\boxed{\\frac1{72}}", "\\frac{1}{72}"),
    ("\\boxed{\\frac{72}1}", "\\frac{72}{1}"),
    ("\\boxed{\\frac 12}", "\\frac{1}{2}"),
    ("\\boxed{\\frac12+\\frac3}", "\\frac12+\\frac3"),
    ("\\boxed{\\frac12+\\frac3}", "\\frac{1}{2}+\\frac3"),
    ("\\boxed{\\frac}", "\\frac"),
    ("\\boxed{\\frac\\frac12}", "\\frac\\frac12"),
    ("\\boxed{\\frac1\\frac}", "\\frac1\\frac"),
    ("\\boxed{\\frac\u00e9\u00e8x}", "\\frac{\u00e9}{\u00e8}x"),
    ("\\boxed{\\dfrac12}", "\\tfrac{1}{2}"),
    ("\\boxed{\\left(1,\\right)2}", "(1,)2"),
    ("\\boxed{90^\\circ}", "90"),
    ("\\boxed{90^{\\circ}}", "90"),
    ("\\boxed{\\$5}", "5"),
    ("\\boxed{5\\%}", "5"),
    ("\\boxed{5\\\\%}", "5"),
    ("\\boxed{5\\text{ cm}}", "5"),
    ("\\boxed{5\\text{cm}}", "5"),
    ("\\boxed{5\\text{ cm}6\\text{ m}}", "5"),
    ("\\boxed{5\\text{ cm}6\\text{ m}}", "5\\text{ cm}6\\text{ m}"),
    ("\\boxed{\\text{ cm}}", ""),
    ("\\boxed{1\\!000}", "1000"),
    ("\\boxed{1,000}", "1000"),
    ("\\boxed{a\\\\b}", "a\\b"),
    ("\\boxed{1\n8}", "18"),
    ("\\boxed{ .5}", "0.5"),
    ("\\boxed{{.5}}", "{0.5}"),
    ("\\boxed{a .5}", "a0.5"),
    # after "Answer:"
    ("Answer: 18", "18"),
    ("answer : 18", "18"),
    ("ANSWER\u3000:\u200318", "18"),
    ("An\u017fwer: 18", "18"),
    ("Answer:18\nmore", "18"),
    ("Answer:\n\n18\n", "18"),
    ("Answer: 17\nAnswer: 18", "18"),
    ("Answer: Answer: 18", "18"),
    ("AnswerAnswer: 18", "18"),
    ("Answer - 18", "18"),
    ("Answer:", "18"),
    ("Answer:   ", ""),
    ("Answer:  \n ", ""),
    ("Answer:\n\n", "18"),
    ("Answer:\n\n\\boxed{18}", "18"),
    ("Answer: 17 so \\boxed{18}", "18"),
    ("Answer: [INVALID] \\boxed{18}", "18"),
    ("Answer: [INVALID]\n\\boxed{18}", "18"),
    ("none", "[INVALID]"),
    ("\\boxed{18}", "[INVALID]"),
    ("\\boxed{18}", "18.0"),
    ("Answer: x=18", "18"),
    ("Answer: x=y=18", "18"),
    ("Answer: 1,080", "1080"),
    ("Answer: 1,080.0", "1080.0"),
    ("Answer: (1,2)", "(12)"),
    ("Answer: 1,\u00b2", "1\u00b2"),
    ("Answer: 1,\u00bd", "1\u00bd"),
    ("Answer: 1,\u0662", "1\u0662"),
    ("Answer: 1,\u2463", "1\u2463"),
    ("Answer: ,", ""),
    ("Answer: $18$", "18"),
    ("Answer: The sum is $18$.", "18"),
    ("Answer: $18$ or $19$", "18"),
    ("Answer: $18", "18"),
    ("Answer: a $1$ b $2", "1"),
    ("Answer: \\$18.", "18."),
    ("Answer: 18.$", "18"),
    ("Answer: 18 km", "18"),
    ("Answer: 18 square feet", "18"),
    ("Answer: \\text{18}", "18"),
    ("Answer: \\text{a\\text{b}c}", "a\\text{bc}"),
    ("Answer: \\text{18", "\\text{18"),
    ("Answer: \\textbf{18} \\overline{19}", "1819"),
    ("Answer: \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
    ("Answer: \\boxed{1} + {2}", "1}+{2"),
    ("Answer: \\boxed{1", "\\boxed{1"),
    ("Answer: \\frac12", "\\frac{1}{2}"),
    ("Answer: \\frac1{2}", "\\frac{1}{{}2}"),
    ("Answer: \\frac1", "\\frac1"),
    ("Answer: fracfrac12", "frac{f}{r}ac12"),
    ("Answer: \\sqrt2", "\\sqrt{2}"),
    ("Answer: \\sqrt", "\\sqrt"),
    ("Answer: \\sqrt\u00e92", "\\sqrt{\u00e9}2"),
    ("Answer: 5\\text{ m}", "5"),
    ("Answer: 5\\mbox{m}", "5"),
    ("Answer: 5\\text{ and }6", "5and6"),
    ("Answer: 5,\\text{ and }6", "5,6"),
    ("Answer: an apple", "apple"),
    ("Answer: banana split", "banansplit"),
    ("Answer: 90^\\circ", "90"),
    ("Answer: 1{,}080", "1080"),
    ("Answer: \"18\"", "18"),
    ("Answer: 18\u3000", "18"),
    ("Answer: 18", "\\text{\ns}18"),
    ("Answer: 18", "$17$\n18"),
    ("Answer: 18", "a\n$18$"),
    ("Answer: 18" + "x" * 290, "18" + "x" * 290),
    ("Answer: 18" + "x" * 291, "18" + "x" * 291),
    ("Answer: 18\n" + "x" * 300, "18"),
    ("Answer: 18\n" + "\u00e9" * 290, "18"),
    ("Answer: 18\n" + "\u00e9" * 289, "18"),
]

PIECES = [
    "\\boxed{", "\\boxed ", "\\boxed", "\\fbox{", "}", "{", "}", "#### ", "Answer:", "answer : ",
    "An\u017fwer:", " ", " ", "\n", "\t", "\u3000", "=", "x=", "$", "$", "\\$", ",", ".", ".5", "0.5",
    "1", "18", "-5", "1,080", "1/2", "/", "\\frac", "\\frac12", "\\frac{1}{2}", "\\dfrac", "frac",
    "\\sqrt", "\\sqrt3", "sqrt", "\\text{", "\\text{ ", "\\text{m}", "\\textbf{", "\\overline{", "\\mbox{",
    "\\left(", "\\right)", "\\!", "\\\\", "\\%", "^\\circ", "^{\\circ}", "\\ ", "\\;", "{,}", "an ", "a ",
    "square ", "km", "units", "\\ldots", "\u00e9", "\u00b2", "\u2463", "\U0001f600", "x", "pi", "[INVALID]",
]
ANSWERS = ["18", "1080", "-5", "0.5", "1/2", "\\frac{1}{2}", "\\frac{a}{b}+c", "\\sqrt{3}", "x+y", "(1,2)",
           "\\pi", "\\text{Tuesday}", "12.5", "5\u00e9", "\\{1,2\\}", "A"]
REWRITTEN = [
    ("\\frac{1}{2}", "\\frac12"), ("\\frac{1}{2}", "1/2"), ("\\frac{1}{2}", "0.5"), ("\\frac", "\\dfrac"),
    ("\\frac", "\\tfrac"), ("\\sqrt{3}", "\\sqrt3"), ("1080", "1,080"), ("1080", "1{,}080"), ("+", " + "),
    ("(", "\\left("), (")", "\\right)"), ("0.5", ".5"), ("\\text", "\\mbox"), ("\\text{Tuesday}", "Tuesday"),
]
AROUND = ["%s", "x=%s", "$%s$", "%s\\text{ cm}", "%s^\\circ", "%s\\%%", "\\$%s", "%s km", " %s ", "%s.", "y = %s",
          "\\text{%s}", "\\textbf{%s}", "an %s", "%s{,}"]
SAID = ["So it is \\boxed{%s}.", "It is $\\boxed{%s}$", "\\boxed %s$ ", "Answer: %s", "answer:\n%s\n", "#### %s",
        "\\boxed{17}, no, \\boxed{%s}", "Answer: \\boxed{%s}", "Answer: $%s$.", "%s"]


def rewrite(rng, answer):
    for before, after in rng.sample(REWRITTEN, 6):
        answer = answer.replace(before, after)
    return rng.choice(AROUND) % answer


def near(rng):
    """An answer in two spellings, which rules may make equal."""
    answer = rng.choice(ANSWERS)
    truth = rewrite(rng, answer) if rng.random() < 0.4 else answer
    return rng.choice(SAID) % rewrite(rng, answer), truth


def marked(rng):
    """A number behind its mark, with commas in it and something behind."""
    number = rng.choice([7, 18, -5, 1080, 1234567, 0.5])
    behind = rng.choice(["", ".", "\n", " apples", ",", "$", "\n#### "])
    return f"so\n#### {number:,}{behind}", rng.choice([f"{number}", f"{number:,}"])


def mixed(rng):
    pieces = rng.choices(PIECES, k=rng.randint(1, 14))
    begin = rng.randrange(len(pieces))
    return "".join(pieces), "".join(pieces[begin:rng.randint(begin, len(pieces))])


def wrapped(rng):
    """Pieces, told as the answer, and as the truth."""
    answer = "".join(rng.choices(PIECES, k=rng.randint(1, 6)))
    truth = answer if rng.random() < 0.7 else answer.replace(" ", "").replace("$", "")
    return rng.choice(SAID) % answer, truth


def main():
    rng = random.Random(42)
    cases = CASES + [make(rng) for _ in range(150) for make in (near, mixed, wrapped)]
    cases += [marked(rng) for _ in range(40)]
    for solution, truth in cases:
        dapo = DAPO.compute_score(solution, truth)
        print(json.dumps({
            "by": VERL, "solution": solution, "truth": truth,
            "gsm8k": GSM8K.compute_score(solution, truth.replace(",", "")),
            "math_reward": MATH.compute_score(solution, truth),
            "math_dapo": dapo["score"],
            "answers": [GSM8K.extract_solution(solution) or "", math_answer(solution),
                        "" if dapo["pred"] == "[INVALID]" else dapo["pred"]]}))


if __name__ == "__main__":
    main()
