#!/usr/bin/env python3
"""Write schemas.jsonl: random JSON Schemas of the keywords that lib/environment/env/schema.c
knows, each with random values and whether they are valid by the package jsonschema.

    pip install jsonschema==4.26.0
    make_schema_vectors.py > schemas.jsonl

Where the library differs from the standard on purpose nothing is asked: schemas with
properties state additionalProperties, and no number is written as 3.0.
"""
import json
import random

import jsonschema

TYPES = ["string", "integer", "number", "boolean", "array", "object", "null"]
NAMES = ["a", "b", "c", "dd"]
TEXTS = ["", "a", "ab", "abc", "x1", "B", "Åé", "a-b", "12"]
PATTERNS = ["^a", "b$", "^[a-z]+$", "[0-9]", "^(a|x).?$", "^.{2}$"]


def number(r):
    return r.choice([r.randint(-3, 6), r.randint(-3, 6), r.randint(-8, 12) + r.choice([0.5, 0.25])])


def value(r, depth=3):
    kind = r.choice(TYPES if depth else ["string", "integer", "number", "boolean", "null"])
    if kind == "string":
        return r.choice(TEXTS)
    if kind == "integer":
        return r.randint(-3, 6)
    if kind == "number":
        return number(r)
    if kind == "boolean":
        return r.random() < 0.5
    if kind == "array":
        return [value(r, depth - 1) for _ in range(r.randint(0, 3))]
    if kind == "object":
        return {name: value(r, depth - 1) for name in r.sample(NAMES, r.randint(0, 3))}
    return None


def some(r, make, most):
    return [make() for _ in range(r.randint(1, most))]


def strings(r, s):
    if r.random() < 0.4:
        s["minLength"] = r.randint(0, 2)
    if r.random() < 0.4:
        s["maxLength"] = r.randint(1, 3)
    if r.random() < 0.4:
        s["pattern"] = r.choice(PATTERNS)


def numbers(r, s):
    for key in ("minimum", "exclusiveMinimum"):
        if r.random() < 0.25:
            s[key] = r.randint(-3, 2)
    for key in ("maximum", "exclusiveMaximum"):
        if r.random() < 0.25:
            s[key] = r.randint(2, 6) + r.choice([0, 0.5])
    if r.random() < 0.2:
        s["multipleOf"] = r.choice([2, 3, 0.5])


def arrays(r, s, depth):
    if r.random() < 0.6:
        s["items"] = schema(r, depth - 1)
    if r.random() < 0.3:
        s["prefixItems"] = some(r, lambda: schema(r, depth - 1), 2)
    if r.random() < 0.3:
        s["minItems"] = r.randint(0, 2)
    if r.random() < 0.3:
        s["maxItems"] = r.randint(1, 3)
    if r.random() < 0.3:
        s["uniqueItems"] = True


def objects(r, s, depth):
    if r.random() < 0.8:
        s["properties"] = {n: schema(r, depth - 1) for n in r.sample(NAMES, r.randint(1, 3))}
        s["additionalProperties"] = r.choice([True, True, False]) if r.random() < 0.7 \
            else schema(r, depth - 1)
        if r.random() < 0.5:
            s["required"] = r.sample(sorted(s["properties"]), 1)
    if r.random() < 0.2:
        s["patternProperties"] = {r.choice(["^a", "d$"]): schema(r, depth - 1)}
        s.setdefault("additionalProperties", True)
    if r.random() < 0.15:
        s["propertyNames"] = {"maxLength": 1}
    if r.random() < 0.2:
        s["maxProperties"] = r.randint(1, 2)
    if r.random() < 0.2:
        s["minProperties"] = 1


def schema(r, depth):
    dice = r.random()
    if dice < 0.04:
        return r.random() < 0.7
    if dice < 0.12:
        return {"enum": [value(r, 1) for _ in range(3)]}
    if dice < 0.15:
        return {"const": value(r, 1)}
    if depth and dice < 0.22:
        return {"$ref": f"#/$defs/{r.choice('pq')}"}
    if depth and dice < 0.40:
        key = r.choice(["anyOf", "anyOf", "oneOf", "allOf"])
        s = {key: some(r, lambda: schema(r, depth - 1), 3)}
        if r.random() < 0.2:
            s["type"] = r.choice(TYPES)
        return s
    if depth and dice < 0.44:
        return {"not": schema(r, depth - 1)}
    kinds = TYPES if depth else ["string", "integer", "number", "boolean", "null"]
    types = r.sample(kinds, r.choice([1, 1, 1, 2]))
    s = {"type": types if len(types) > 1 else types[0]}
    if "string" in types:
        strings(r, s)
    if "integer" in types or "number" in types:
        numbers(r, s)
    if "array" in types and depth:
        arrays(r, s, depth)
    if "object" in types and depth:
        objects(r, s, depth)
    return s


def consistent(s):
    """The library refuses a schema whose minimum is above its maximum."""
    if isinstance(s, dict):
        if isinstance(s.get("minimum"), (int, float)) and isinstance(s.get("maximum"), (int, float)) \
                and s["minimum"] > s["maximum"]:
            return False
        return all(consistent(v) for v in s.values())
    return not isinstance(s, list) or all(consistent(v) for v in s)


def document(r):
    s = {"type": "object", "properties": {n: schema(r, 3) for n in r.sample(NAMES, 2)},
         "additionalProperties": r.random() < 0.5}
    s["$defs"] = {"p": schema(r, 0), "q": {"type": ["object", "null", "integer"], "properties": {
        "a": {"$ref": "#/$defs/q"}, "b": schema(r, 0)}, "additionalProperties": False}}
    return s


def main():
    r = random.Random(17)
    rows = 0
    while rows < 700:
        s = document(r)
        if not consistent(s):
            continue
        judge = jsonschema.Draft202012Validator(s)
        judged = []
        for _ in range(60):
            v = {n: value(r) for n in r.sample(sorted(s["properties"]), r.randint(0, 2))}
            if r.random() < 0.1:
                v["zz"] = 1
            judged.append([v, judge.is_valid(v)])
        good = [j for j in judged if j[1] and j[0]][:4]
        bad = [j for j in judged if not j[1]][:4]
        if good or bad:
            print(json.dumps({"schema": s, "values": good + bad}, ensure_ascii=False,
                             separators=(",", ":")))
            rows += 1


main()
