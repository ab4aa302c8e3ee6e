"""What an HTTP server of retrieval costs before it retrieves: FastAPI and uvicorn, the
request model of Search-R1's retrieval server, and an answer that is always the same.

    constant_server.py PORT ANSWER.json
"""
import json
import sys
from typing import List, Optional

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class QueryRequest(BaseModel):
    queries: List[str]
    topk: Optional[int] = None
    return_scores: bool = False


app = FastAPI()
with open(sys.argv[2], encoding="utf-8") as answer:
    ANSWER = json.load(answer)


@app.post("/retrieve")
async def retrieve(request: QueryRequest):
    return ANSWER


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
