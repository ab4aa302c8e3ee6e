"""A retriever of your own, as a class: custom_engine.py

`search` gets the distinct queries of one turn and answers each with hits, best first: a
Hit, a mapping with its fields, or a text. An exception object in place of hits fails that
query alone: its trajectory is left out of training, never scored as a wrong answer."""

from searchr1 import Hit, PythonSearch


class Towns:
    """Where towns lie. A real one would ask a database."""

    facts = {"rome": "Rome\nRome is the capital of Italy.", "oslo": "Oslo\nNorway."}

    def __init__(self):
        self.batches = 0

    def search(self, queries, top_k):
        self.batches += 1
        return [self.lookup(query.lower())[:top_k] for query in queries]

    def lookup(self, query):
        towns = [town for town in self.facts if town in query]
        return [Hit(town, self.facts[town], score=1.0) for town in towns]


towns = Towns()
# PythonSearch is made for you where an engine is wanted: Rollout, Trainer, Environment.
with PythonSearch(towns, name="towns") as engine:
    for result in engine.run(["Where is Rome?", "And Oslo?", "Atlantis?"], top_k=3):
        print(result.query, "->", [hit.contents for hit in result.hits] or result.message)
print(f"{towns.batches} batch")
