"""Adapts schemathesis to rules that Slipway's OpenAPI document cannot express."""

import itertools
import json
import os

import schemathesis

OWN_TOKEN_ID = os.environ.get("SLIPWAY_OWN_TOKEN_ID")
call_numbers = itertools.count()


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    lines = value if isinstance(value, list) else [value]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    query = case.query or {}
    # Long polls and followed streams would use up the time of the run.
    if isinstance(query.get("wait"), (int, float)):
        query["wait"] = 0
    if query.get("follow") in (True, "true"):
        query["follow"] = "false"
    # A run that revoked its own token would get 401 for every later request.
    if OWN_TOKEN_ID and (case.path_parameters or {}).get("id") == OWN_TOKEN_ID:
        case.path_parameters["id"] = "tok_nobody"
    # Generated keys repeat, and a key with a different body gets 409 before the call does anything.
    # So only one call in ten keeps its key.
    headers = case.headers or {}
    if "Idempotency-Key" in headers and next(call_numbers) % 10:
        del headers["Idempotency-Key"]


# These operations may refuse a request that fits its schema, because JSON Schema cannot express the
# rule.
BEYOND_SCHEMA = {
    "agent-boot": "text/plain must be output of cloud-init; stages must not begin in the future",
    "agent-evidence": "some kinds of facts are reserved for the server",
    "agent-register": "a token is required, and a name with a join token; stages must not begin in the future",
    "allocation-act": "the required fields depend on the action",
    "evidence-create": "facts must refer to existing objects of the caller; some kinds are reserved",
    "fleet-recover": "the action must fit the status of the filter",
    "join-token-create": "no_expiry and ttl_seconds exclude each other",
    "maintenance-put": "a window must end in the future and after its start",
    "node-act": "the required fields depend on the action",
    "node-state": "the requested time must not be in the future",
    "policy-replay": "runtime classes and drivers must exist on this server",
    "pool-budget": "only the phase provision has a policy",
    "pool-put": "the spec must fit the driver's schema, and the name must match the path",
    "secret-put": "the value must not be guessable",
    "timeline-get": "at least one of the five ids is required",
    "token-create": "only a relay token has a pool, and it has no tenant",
}
# A cursor is opaque, so the schema cannot tell a valid cursor from an invalid one.
INVALID_CURSOR = "invalid_cursor"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    operation = case.operation.definition.raw.get("operationId")
    if type(failure).__name__ == "RejectedPositiveData" and response.status_code == 400:
        return operation not in BEYOND_SCHEMA and response.json().get("code") != INVALID_CURSOR
    return True
