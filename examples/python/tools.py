"""Tools of your own, as functions: tools.py

Name, description and schema of a tool come from the function: its docstring and its
annotations. What it raises is told to the policy as an error; TimeoutError, ConnectionError
and tools.Unavailable are not, they leave the trajectory out of training."""

import json

from searchr1 import Environment, Mock, Tool

TOWERS = {"Eiffel": 1889, "Shard": 2012}


def tower_year(tower: str) -> int:
    """The year in which a tower was finished.

    Args:
        tower: its name
    """
    return TOWERS[tower]


def ask(environment, name, **args):
    action = json.dumps({"name": name, "args": args})
    print(action, "->", environment.answer(action).replace("\n", " "))


# With an engine there is the tool wiki_search. Rollout.set_env makes a policy use it.
with Environment(
    "tools",
    Mock({"louvre": "The Louvre: Paris."}),
    protocol="mt-grpo",
    document_format="plain",
    tools=[Tool(tower_year, deadline=5)],
) as environment:
    print(environment.tools)
    ask(environment, "tower_year", tower="Eiffel")
    ask(environment, "tower_year", tower=7)
    ask(environment, "tower_year", tower="Babel")
    ask(environment, "wiki_search", query="louvre", k=1)
