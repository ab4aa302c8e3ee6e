-- retrieve.lua - wrk's load on POST /retrieve: one question a request, in the order of a
-- file of rows with "question", each thread from a place of its own.
--
--     wrk -t 2 -c 64 -d 10 -s retrieve.lua http://127.0.0.1:8000 -- dev.jsonl
--
-- Prints one JSON line at the end. An answer without a hit's text counts as wrong.
local bodies, at = {}, 0
local threads = 0
local all = {}

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
    all[#all + 1] = thread
end

function init(args)
    for line in io.lines(args[1]) do
        local question = line:match('"question": ("[^\n]-[^\\]")')
        if question then
            bodies[#bodies + 1] = wrk.format("POST", "/retrieve",
                { ["Content-Type"] = "application/json" },
                '{"queries": [' .. question .. '], "topk": 3, "return_scores": true}')
        end
    end
    at = number * 997
    wrong = 0
end

function request()
    at = at + 1
    return bodies[at % #bodies + 1]
end

function response(status, headers, body)
    if status ~= 200 or not body:find('"contents"', 1, true) then
        wrong = wrong + 1
    end
end

function done(summary, latency, requests)
    local failed = summary.errors.connect + summary.errors.read + summary.errors.write +
        summary.errors.timeout
    for _, thread in ipairs(all) do
        failed = failed + thread:get("wrong")
    end
    print(string.format('{"requests_s": %.1f, "p50_ms": %.3f, "p99_ms": %.3f, ' ..
        '"requests": %d, "wrong": %d}', summary.requests / summary.duration * 1e6,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, summary.requests, failed))
end
