#!/usr/bin/env python3
"""Write difflib.jsonl: [a, b, SequenceMatcher(None, a, b).ratio()] by Python's difflib.

    make_difflib_vectors.py > difflib.jsonl

Short strings of several alphabets, edits of each other or unrelated, and long ones on both
sides of the 200 characters from which popular characters are left out.
"""
import difflib
import json
import random

CHINESE = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影算低持音众书布复容儿须际商非验连断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何除消构府称太准精值号率族维划选标写存候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严龙飞"
ALPHABETS = [
    "ab", "abc ", "abcdefghij ", "etaoin shrdlu,.", CHINESE[:12], CHINESE[:80], CHINESE,
    "aé\u0301ßΣσς Ω\U0001f600\U0001f601中",
]


def edited(rng, s, alphabet):
    """s with a few characters replaced, dropped, doubled, and pieces moved."""
    s = list(s)
    for _ in range(rng.randint(0, 6)):
        if not s:
            break
        i = rng.randrange(len(s))
        kind = rng.randrange(4)
        if kind == 0:
            s[i] = rng.choice(alphabet)
        elif kind == 1:
            del s[i]
        elif kind == 2:
            s.insert(i, rng.choice(alphabet))
        else:
            j = rng.randrange(len(s))
            s = s[i:] + s[:i] if j % 2 else s[:i] + s[i:][::-1]
    return "".join(s)


def pair(rng, alphabet, la, lb):
    a = "".join(rng.choice(alphabet) for _ in range(la))
    if rng.random() < 0.5:
        return a, edited(rng, a, alphabet)
    return a, "".join(rng.choice(alphabet) for _ in range(lb))


def main():
    rng = random.Random(20261121)
    cases = [("", ""), ("a", ""), ("", "a"), ("a" * 300, "a" * 300), ("ab" * 150, "ba" * 150),
             ("x" + "a" * 250, "a" * 250 + "x"), ("a" * 199, "a" * 199 + "b"),
             ("a" * 200, "b" + "a" * 200), ("tide", "diet"), ("diet", "tide")]
    for k in range(2600):
        alphabet = ALPHABETS[k % len(ALPHABETS)]
        cases.append(pair(rng, alphabet, rng.randint(0, 24), rng.randint(0, 24)))
    for k in range(150):
        alphabet = ALPHABETS[k % len(ALPHABETS)]
        n = rng.choice([150, 199, 200, 201, 260, 400])
        cases.append(pair(rng, alphabet, rng.randint(n // 2, n), n))
    asymmetric = 0
    for a, b in cases:
        ratio = difflib.SequenceMatcher(None, a, b).ratio()
        asymmetric += ratio != difflib.SequenceMatcher(None, b, a).ratio()
        print(json.dumps([a, b, ratio], ensure_ascii=False, separators=(",", ":")))
    assert asymmetric > 100


if __name__ == "__main__":
    main()
