"""Serve an engine over HTTP, as Search-R1's retrieval servers do."""

from __future__ import annotations

import threading
from ctypes import byref, sizeof
from typing import Any, Callable, Dict, Optional, Union

from . import _callbacks
from ._handle import Handle, make
from ._lib import lib
from ._structs import ServerOptions, ServerStats
from ._text import decode, optional
from .errors import Error, StateError
from .embed import Reranker
from .search import Search, SearchFunction, as_search


def _free_server(pointer: int) -> None:
    """Free a server, on a thread of its own where a search of the server does it, such as
    in a collection: it would wait for itself."""
    lib.sr1_server_stop(pointer)
    try:
        lib.sr1_server_run(pointer)  # it only finishes
    except StateError:
        threading.Thread(target=lib.sr1_server_free, args=(pointer,)).start()
        return
    except Error:
        pass  # clients were cut off
    lib.sr1_server_free(pointer)


class Server(Handle):
    """Answers POST /retrieve, /search, /batch_search and /rerank, GET /health and
    /metrics, until it is closed:

        with Server(Bm25("wiki.idx"), port=8000) as server:
            print(server.url)   # for the trainer: server.url + "/retrieve"
            server.run()        # until Ctrl-C, or stop() from another thread

    Requests that were accepted are answered before it closes."""

    _free = "sr1_server_free"

    @classmethod
    def _free_function(cls) -> Callable[[int], Any]:
        return _free_server

    def __init__(
        self,
        engine: Union[Search, SearchFunction, Any],
        port: int = 0,
        address: str = "127.0.0.1",
        top_k: int = 3,
        token_env: Optional[str] = None,
        reranker: Optional[Reranker] = None,
        **options: int,
    ) -> None:
        """engine: a Search, or what PythonSearch takes. port 0: any that is free. top_k:
        hits where a request asks for none. token_env: the environment variable with the
        token that clients send; needed where other machines can reach the address.
        reranker: orders what POST /rerank brings, in place of BM25.
        options: further fields of sr1_server_options (searchr1/ext/server.h)."""
        o = ServerOptions()
        lib.sr1_server_options_init(byref(o))
        o.struct_size = sizeof(o)
        known = {name for name, *_ in ServerOptions._fields_}
        for name, value in options.items():
            if name not in known:
                raise TypeError(f"Server has no option {name!r}")
            setattr(o, name, value)
        o.address, o.token_env = optional(address), optional(token_env)
        o.port, o.top_k = port, top_k
        self.reranker = reranker  # its Python function has to live as long
        o.reranker = None if reranker is None else reranker._as_parameter_
        self.engine = as_search(engine)
        self._stopped = threading.Event()
        super().__init__(make(lib.sr1_server_open, self.engine, byref(o)))

    @property
    def port(self) -> int:
        return int(lib.sr1_server_port(self))

    @property
    def url(self) -> str:
        """http://127.0.0.1:8000"""
        return decode(lib.sr1_server_url(self))

    @property
    def stats(self) -> Dict[str, int]:
        """accepted = answered + dropped + in_flight, and more (searchr1/ext/server.h)."""
        stats = ServerStats()
        lib.sr1_server_stats_get(self, byref(stats))
        return stats.as_dict()

    def run(self) -> None:
        """Wait for stop() or Ctrl-C, then answer what was accepted and close the port."""
        with _callbacks.interrupts(self.stop):
            while not self._stopped.wait(1.0):
                pass
        if self._pointer is not None:  # close() has finished already
            lib.sr1_server_run(self)

    def close(self) -> None:
        """Stop, answer what was accepted, and free the server; run() returns."""
        self._stopped.set()
        super().close()

    def stop(self) -> None:
        """Make run() return."""
        self._stopped.set()
        lib.sr1_server_stop(self)
