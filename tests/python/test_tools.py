"""Tools of Python: schemas from signatures, what a call gives, what a tool raises."""

import gc
import json
import sys
import threading
import weakref
from typing import Any, List, Literal, Optional, Union

import pytest

import searchr1
from searchr1 import Environment, Mock, Tool, env, errors, tools

import tiny


def population(city: str, year: int = 2020, kind: Literal["town", "county"] = "town",
               tags: Optional[List[str]] = None, exact: bool = False) -> int:
    """How many people live
    in a city.

    More is not told.

    Args:
        city: its name
        year (int): when
    """
    if city == "Atlantis":
        raise KeyError("no such city")
    if city == "Silence":
        return None
    if city == "Slow":
        raise TimeoutError("too slow")
    if city == "Gone":
        raise tools.Unavailable("the database is gone")
    return f"{city} {year} {kind} {tags} {exact}"


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "its name"},
        "year": {"type": "integer", "description": "when", "default": 2020},
        "kind": {"enum": ["town", "county"], "default": "town"},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "exact": {"type": "boolean", "default": False},
    },
    "required": ["city"],
}


def call(name, **args):
    return json.dumps({"name": name, "args": args})


def result(text):
    return f"<result>\n{text}\n</result>"


def test_schemas_come_from_signatures():
    tool = Tool(population)
    assert (tool.name, tool.description) == (
        "population", "How many people live in a city.")
    assert tool.schema == SCHEMA
    assert tools.schema_of(lambda: 0)["properties"] == {}

    def odd(what: complex):
        pass

    with pytest.raises(TypeError, match="what.*give the tool a schema"):
        Tool(odd)
    assert Tool(odd, schema={"type": "object"}).schema == {"type": "object"}
    with pytest.raises(TypeError, match="'rest'"):
        Tool(lambda *rest: 0)


def test_tools_answer():
    with Environment("tools", protocol="mt-grpo", tools=[population]) as e:
        assert e.tools.startswith("population: How many people live in a city.\n- city (")
        assert e.answer(call("population", city="Rome", tags=["a"])) == result(
            "Rome 2020 town ['a'] False")
        assert e.answer(call("population", city="Atlantis")) == result(
            "Error: 'no such city'")
        assert e.answer(call("population", city="Silence")) == (
            "Error: population gave an empty result")
        assert e.answer(call("population", year=1)) == result(
            "Error: population: argument 'city' is missing")
        assert e.answer(call("population", city="Rome", kind="x")).startswith(
            result("Error: population: argument 'kind' must be one of")[:-10])
        assert "unknown tool 'x'; known: population" in e.answer(call("x"))
        for city in ("Slow", "Gone"):  # nothing the policy did
            assert e.answer(call("population", city=city)) == result("")


def test_objects_and_engines_are_tools_too():
    class Doubling:
        name = "double"

        def call(self, x: float) -> float:
            """Twice as much."""
            return 2 * x

    with Environment("tools", Mock({"tower": "In Paris."}), protocol="mt-grpo",
                     document_format="plain", tools=[Doubling()]) as e:
        assert e.answer(call("double", x=1.5)) == result("3.0")
        assert e.answer(call("wiki_search", query="tower")) == result("In Paris.")
        with pytest.raises(errors.InvalidError, match="there already"):
            e.add_tool(Doubling())
    with Environment("search", Mock({})) as e:
        with pytest.raises(errors.StateError):
            e.add_tool(population)
    with pytest.raises(errors.UnsupportedError, match="'minContains'"):
        Environment("tools", tools=[Tool(population, schema={
            "type": "object", "properties": {"city": {"minContains": 1}}})])


def test_an_object_is_shown_as_json():
    """A list stays as Python writes it, as it does in TRL."""

    def look(what: str):
        """Look at it."""
        return {"object": {"d": None, "é": [True]}, "list": [("a", None)], "no": {"a": {1}}}[what]

    with Environment("tools", protocol="mt-grpo", tools=[look]) as e:
        assert e.answer(call("look", what="object")) == result('{"d": null, "é": [true]}')
        assert e.answer(call("look", what="list")) == result("[('a', None)]")
        assert e.answer(call("look", what="no")) == result("{'a': {1}}")


def test_deadlines():
    over, ended = threading.Event(), threading.Event()

    def slow(waits: bool):
        if waits:
            over.wait(60)
            ended.set()
        return "done"

    with Environment("tools", protocol="mt-grpo",
                     tools=[Tool(slow, deadline=5, concurrent=True)]) as e:
        assert e.answer(call("slow", waits=False)) == result("done")
        assert e.answer(call("slow", waits=True)) == result("")
        assert not ended.is_set()  # nobody waited for it
        over.set()
        assert ended.wait(60)


def test_functions_live_as_long_as_environments():
    def tool(x: int):
        return x

    gone = weakref.ref(tool)
    e = Environment("tools", tools=[tool])
    del tool
    gc.collect()
    assert "7" in e.answer(call("tool", x=7))
    e.close()
    gc.collect()
    assert gone() is None


def test_interrupts_come_through():
    def stop():
        raise KeyboardInterrupt

    with Environment("tools", tools=[stop]) as e:
        with pytest.raises(KeyboardInterrupt):
            e.answer(call("stop"))


def test_a_rollout_with_tools(model_folder):
    with Environment("tools", document_format="plain", tools=[population]) as tooled:
        with searchr1.Rollout(tiny.config(model_folder), search=tiny.engine) as rollout:
            rollout.set_env(tooled)
            (t,) = rollout.generate(["Where?"], greedy=True)
            assert "Error: the tool call is not valid JSON" in t.generated_text
            assert env.result_turn(t) == 0
            with Environment("tools", protocol="mt-grpo") as other:
                with pytest.raises(errors.InvalidError, match="protocol mt-grpo"):
                    rollout.set_env(other)


def test_levels(trajectories):
    rewards = searchr1.RewardSet(["exact_match", "tool_execution"])
    rewards.add("mine", lambda ts: [2.0] * len(ts), 0.5, "turn",
                lambda t: [1.0] + [0.0] * (t.turn_count - 1))
    assert rewards.levels == ["outcome", "turn", "turn"]
    parts, totals, begin = rewards.score_turns(trajectories)
    whole, _ = rewards.score(trajectories)
    assert begin[-1] == len(totals) == sum(t.turn_count for t in trajectories)
    for i in range(len(trajectories)):
        sums = sum(totals[begin[i]:begin[i + 1]])
        assert sums == pytest.approx(whole[i][1] + 0.5 * 2.0)
        assert list(parts[begin[i]]) [2] == 1.0
    rewards.add("short", lambda ts: [0.0] * len(ts), 1.0, "turn", lambda t: [])
    with pytest.raises(ValueError, match="0 values"):
        rewards.score_turns(trajectories)


def test_a_union_with_none_is_optional():
    def look(floor: "int | None" = None):
        pass

    if sys.version_info >= (3, 10):
        assert Tool(look).schema["properties"] == {"floor": {"type": ["integer", "null"]}}


def test_arguments_of_several_types():
    """Each is taken as it is; models are trained on schemas that allow null."""

    def look(at: Union[int, str], floor: Optional[int] = None,
             names: Union[List[str], str, None] = None, what: Optional[Any] = None) -> str:
        return repr((at, floor, names, what))

    assert Tool(look).schema["properties"] == {
        "at": {"type": ["integer", "string"]},
        "floor": {"type": ["integer", "null"]},
        "names": {"anyOf": [{"type": "array", "items": {"type": "string"}},
                            {"type": "string"}, {"type": "null"}]},
        "what": {},
    }
    with Environment("tools", protocol="mt-grpo", tools=[look]) as e:
        assert e.answer(call("look", at=1, floor=None)) == result("(1, None, None, None)")
        assert e.answer(call("look", at="x", names=["a"], what=2)) == result(
            "('x', None, ['a'], 2)")
        assert e.answer(call("look", at="x", names=None)) == result("('x', None, None, None)")
        assert "Error: look: argument 'at'" in e.answer(call("look", at=1.5))


def test_the_class_of_a_tool_is_no_tool():
    class Adder:
        name = "adder"

        def call(self, a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

    with pytest.raises(TypeError, match=r"give Adder\(...\), not the class"):
        Tool(Adder)
    assert Tool(Adder()).name == "adder"
