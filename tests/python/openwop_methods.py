"""Calls every public method of OpenWOP's own client against a running server.

The methods are found by introspection: one that has no entry below fails the run, so a newer client can't bring a
method that nobody looked at. Families that the server offers are called with success and with an error; all others have
to get the refusal that the protocol documents.

The server is at ABIDE_URL, with the key ABIDE_API_KEY. It has a test clock and the workflows `noop` (ends at once),
`parked` (waits for an hour), `review` (asks for a decision at its node `gate`) and `reporter` (makes an artifact with `pages: 3.0`, and ends).
"""

import dataclasses
import http.server
import inspect
import json
import os
import queue
import sys
import threading
import traceback
import typing
import urllib.error

from openwop_client import client as module
from openwop_client import types, webhook_helpers
from openwop_client.client import OpenwopClient
from openwop_client.errors import WopError

URL = os.environ["ABIDE_URL"]
KEY = os.environ["ABIDE_API_KEY"]
NO_RUN = "run-00000000-0000-7000-8000-000000000000"

client = OpenwopClient(URL, KEY)
stranger = OpenwopClient(URL, "abk_nobody_0000")
methods = {}


def method(name, path=None):
    """Notes how a method is tried; with a path, only where the server has that path."""

    def note(attempt):
        methods[name] = (path, attempt)
        return attempt

    return note


def refused(status, code, call):
    """The call has to be refused like this, in the closed envelope."""
    try:
        got = call()
    except WopError as error:
        assert error.envelope is not None, f"no envelope: {error.raw_text}"
        assert (error.status, error.envelope.error) == (status, code), error.raw_text
        assert set(json.loads(error.raw_text)) <= {"error", "message", "details"}, error.raw_text
        return error.envelope.details
    raise AssertionError(f"{got!r} instead of a refusal with {status} {code}")


def started(workflow="parked", **options):
    return client.runs_create(types.CreateRunRequest(workflowId=workflow, **options)).runId


# What every server has.


@method("discovery_capabilities")
def _():
    told = client.discovery_capabilities()
    assert told.protocolVersion == "1.0", told
    assert told.supportedTransports == ["rest"], told
    assert told.limits.maxRequestBodyBytes > 0, told
    assert told.restTransport.conditionalRunGet, told
    refused(404, "not_found", OpenwopClient(URL + "/nowhere", KEY).discovery_capabilities)


@method("discovery_openapi")
def _():
    assert client.discovery_openapi()["openapi"].startswith("3.1"), "OpenAPI 3.1"
    refused(404, "not_found", OpenwopClient(URL + "/nowhere", KEY).discovery_openapi)


@method("workflows_get")
def _():
    assert client.workflows_get("noop")["id"] == "noop"
    refused(404, "workflow_not_found", lambda: client.workflows_get("nothing"))
    refused(401, "unauthenticated", lambda: stranger.workflows_get("noop"))


@method("runs_create")
def _():
    body = types.CreateRunRequest(
        workflowId="noop",
        inputs={"a": 1},
        tags=["python"],
        metadata={"m": [1]},
        configurable=types.RunConfigurable(recursionLimit=10),
    )
    run = client.runs_create(body)
    assert run.runId.startswith("run-") and run.eventsUrl.startswith("/v1/runs/"), run
    first = client.runs_create(body, idempotency_key="python-1")
    assert client.runs_create(body, idempotency_key="python-1") == first
    other = types.CreateRunRequest(workflowId="parked")
    refused(409, "idempotency_key_mismatch", lambda: client.runs_create(other, idempotency_key="python-1"))
    held = types.CreateRunRequest(workflowId="parked", scopeId="python")
    client.runs_create(held, dedup=True)
    refused(409, "run_already_active", lambda: client.runs_create(held, dedup=True))
    refused(404, "workflow_not_found", lambda: client.runs_create(types.CreateRunRequest(workflowId="nothing")))
    wrong = types.CreateRunRequest(workflowId="noop", configurable={"recursionLimit": "many"})
    refused(400, "validation_error", lambda: client.runs_create(wrong))
    refused(401, "unauthenticated", lambda: stranger.runs_create(body))


@method("runs_get")
def _():
    run = client.runs_get(started())
    assert (run.workflowId, run.status) == ("parked", "running"), run
    refused(404, "run_not_found", lambda: client.runs_get(NO_RUN))


# Nodes that ask.


def asked():
    """A run that waits for a decision, and the token that it shows."""
    run = started("review")
    interrupt = client._request_json("GET", f"/v1/runs/{run}")["interrupt"]
    assert interrupt["callbackUrl"] == f"/v1/interrupts/{interrupt['interruptToken']}", interrupt
    return run, interrupt["interruptToken"]


ACCEPT = types.ResolveInterruptRequest(resumeValue={"action": "accept"})


@method("interrupts_resolve_by_run")
def _():
    run, _token = asked()
    assert client.runs_get(run).status == "waiting-approval"
    wrong = types.ResolveInterruptRequest(resumeValue={"action": "maybe"})
    refused(400, "validation_error", lambda: client.interrupts_resolve_by_run(run, "gate", wrong))
    refused(404, "interrupt_not_found", lambda: client.interrupts_resolve_by_run(run, "nowhere", ACCEPT))
    refused(401, "unauthenticated", lambda: stranger.interrupts_resolve_by_run(run, "gate", ACCEPT))
    first = client.interrupts_resolve_by_run(run, "gate", ACCEPT, idempotency_key="python-answer")
    assert (first.runId, first.nodeId, first.status) == (run, "gate", "completed"), first
    assert client.interrupts_resolve_by_run(run, "gate", ACCEPT, idempotency_key="python-answer") == first
    refused(409, "interrupt_already_resolved", lambda: client.interrupts_resolve_by_run(run, "gate", ACCEPT))


@method("interrupts_inspect_by_token")
def _():
    run, token = asked()
    seen = stranger.interrupts_inspect_by_token(token)
    assert (seen.kind, seen.data["title"]) == ("approval", "Release?"), seen
    client.interrupts_resolve_by_run(run, "gate", ACCEPT)
    refused(409, "interrupt_already_resolved", lambda: client.interrupts_inspect_by_token(token))
    refused(404, "interrupt_not_found", lambda: client.interrupts_inspect_by_token("tok_nobody"))


@method("interrupts_resolve_by_token")
def _():
    run, token = asked()
    assert stranger.interrupts_resolve_by_token(token, ACCEPT)["status"] == "completed"
    assert client.runs_get(run).status == "completed"
    refused(409, "interrupt_already_resolved", lambda: client.interrupts_resolve_by_token(token, ACCEPT))
    refused(404, "interrupt_not_found", lambda: client.interrupts_resolve_by_token("tok_nobody", ACCEPT))


@method("runs_cancel")
def _():
    run = started()
    assert client.runs_cancel(run, types.CancelRunRequest(reason="no more")).status == "cancelled"
    assert client.runs_cancel(run).status == "cancelled"
    refused(404, "run_not_found", lambda: client.runs_cancel(NO_RUN))


@method("runs_pause")
def _():
    run = started()
    paused = client.runs_pause(run, types.PauseRunRequest(reason="wait", drainPolicy="immediate"))
    assert (paused.runId, paused.status) == (run, "paused") and paused.pausedAt, paused
    assert client.runs_get(run).status == "paused"
    assert refused(409, "run_not_pausable", lambda: client.runs_pause(run))["runStatus"] == "paused"
    refused(404, "run_not_found", lambda: client.runs_pause(NO_RUN))


@method("runs_resume")
def _():
    run = started()
    assert refused(409, "run_not_paused", lambda: client.runs_resume(run))["runStatus"] == "running"
    client.runs_pause(run)
    resumed = client.runs_resume(run, types.ResumeRunRequest(reason="go on"))
    assert (resumed.runId, resumed.status) == (run, "running") and resumed.resumedAt, resumed
    refused(404, "run_not_found", lambda: client.runs_resume(NO_RUN))


@method("runs_bulk_cancel")
def _():
    runs = [started(), NO_RUN, started()]
    results = client.runs_bulk_cancel(types.BulkCancelRunsRequest(runIds=runs)).results
    assert [result.runId for result in results] == runs, results
    assert [result.ok for result in results] == [True, False, True], results
    assert results[0].status == "cancelled" and results[1].error["code"] == "not_found", results
    refused(400, "validation_error", lambda: client.runs_bulk_cancel(types.BulkCancelRunsRequest(runIds=[])))


@method("runs_poll_events")
def _():
    run = started("noop")
    events, last = [], -1
    while True:
        page = client.runs_poll_events(run, last_sequence=last, timeout_seconds=30)
        events += page.events
        if page.isComplete:
            break
        last = events[-1].sequence
    assert [event.type for event in events if event.type.startswith("run.")] == ["run.started", "run.completed"]
    refused(404, "run_not_found", lambda: client.runs_poll_events(NO_RUN))
    refused(400, "validation_error", lambda: client.runs_poll_events(run, timeout_seconds=0))


@method("runs_events", "/v1/runs/{runId}/events")
def _():
    run = started("noop")
    for options in [{}, {"stream_mode": "debug"}, {"stream_mode": ["updates", "messages"]}, {"buffer_ms": 50}]:
        events = list(client.runs_events(run, **options))
        assert events[0].type == "run.started" and events[-1].type == "run.completed", (options, events)
    later = list(client.runs_events(run, last_event_id=str(events[0].sequence)))
    assert later == events[1:], later
    for bad in [{"stream_mode": "values,updates"}, {"buffer_ms": 99999}]:
        try:
            list(client.runs_events(run, **bad))
        except urllib.error.HTTPError as error:
            assert error.code == 400, error
        else:
            raise AssertionError(f"{bad} was taken")


@method("runs_get_artifact")
def _():
    run = started("reporter")
    events = client.runs_poll_events(run).events
    made = [event.payload["artifactId"] for event in events if event.type == "artifact.created"]
    assert client.runs_get_artifact(run, made[0])["data"] == {"pages": 3.0}
    # None is what the client makes of "not found".
    assert client.runs_get_artifact(run, "nothing") is None
    assert client.runs_get_artifact(NO_RUN, made[0]) is None
    refused(401, "unauthenticated", lambda: stranger.runs_get_artifact(run, "nothing"))


# Families that discovery tells of.


def receiver():
    """A server that answers yes, and what comes in."""
    came = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            came.put((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/hook", came


@method("webhooks_register", "/v1/webhooks")
def _():
    url, came = receiver()
    told = client.webhooks_register(types.RegisterWebhookRequest(url=url, events=["run.completed"]))
    assert told.subscriptionId and told.eventTypes == ["run.completed"], told
    run = started("noop")
    headers, body = came.get(timeout=60)
    signature, timestamp, _ = webhook_helpers.read_webhook_headers(headers)
    sent = int(timestamp)
    assert json.loads(body)["runId"] == run and json.loads(body)["event"]["type"] == "run.completed", body
    verify = webhook_helpers.verify_webhook_signature
    assert verify(told.secret, signature, timestamp, body, now_seconds=sent).valid
    assert not verify(told.secret, signature, timestamp, body + b" ", now_seconds=sent).valid
    assert not verify("another", signature, timestamp, body, now_seconds=sent).valid
    inside = types.RegisterWebhookRequest(url="https://10.1.2.3/hook", events=["run.completed"])
    refused(400, "webhook_url_rejected", lambda: client.webhooks_register(inside))
    nothing = types.RegisterWebhookRequest(url=url, events=[])
    refused(400, "validation_error", lambda: client.webhooks_register(nothing))


@method("webhooks_unregister", "/v1/webhooks/{webhookId}")
def _():
    url, _ = receiver()
    told = client.webhooks_register(types.RegisterWebhookRequest(url=url, events=["run.completed"]))
    assert client.webhooks_unregister(told.subscriptionId) is None
    refused(404, "subscription_not_found", lambda: client.webhooks_unregister(told.subscriptionId))


@method("create_annotation", "/v1/runs/{runId}/annotations")
def _():
    run = started()
    body = types.CreateAnnotationRequest(signal={"kind": "rating", "rating": 4}, note="quick")
    said = client.create_annotation(run, body)
    assert said.annotationId and said.target["runId"] == run and said.signal == body.signal, said
    wrong = types.CreateAnnotationRequest(signal={"kind": "rating", "rating": 9})
    refused(400, "validation_error", lambda: client.create_annotation(run, wrong))
    refused(404, "run_not_found", lambda: client.create_annotation(NO_RUN, body))


@method("list_annotations", "/v1/runs/{runId}/annotations")
def _():
    run = started()
    assert client.list_annotations(run) == []
    said = client.create_annotation(run, types.CreateAnnotationRequest(signal={"kind": "flag"}))
    assert client.list_annotations(run) == [said]
    assert client.list_annotations(NO_RUN) is None


@method("runs_debug_bundle", "/v1/runs/{runId}/debug-bundle")
def _():
    run = started()
    bundle = client.runs_debug_bundle(run)
    assert bundle.bundleVersion == "1" and bundle.run["runId"] == run, bundle
    assert client.runs_debug_bundle(NO_RUN) is None


@method("runs_fork")
def _():
    run = started()
    fork = client.runs_fork(run, types.ForkRunRequest(mode="replay", fromSeq=0))
    assert (fork.sourceRunId, fork.mode, fork.fromSeq) == (run, "replay", 0), fork
    refused(404, "run_not_found", lambda: client.runs_fork(NO_RUN, types.ForkRunRequest(mode="replay", fromSeq=0)))


# What is not offered: each method with the status that it fails with, or with what the client makes of the refusal.

NOT_FOUND, NOT_PROVIDED = (404, "not_found"), (501, "capability_not_provided")

REFUSED = {
    "runs_events": 404,
    "webhooks_register": NOT_FOUND,
    "webhooks_unregister": NOT_FOUND,
    "create_annotation": NOT_FOUND,
    "list_annotations": None,
    "runs_ancestry": None,
    "runs_diff": None,
    "runs_eval_summary": None,
    "audit_verify": NOT_FOUND,
    "agents_list": None,
    "agents_get": None,
    "agents_list_deployments": None,
    "agents_transition_deployment": NOT_FOUND,
    "agents_list_roster": None,
    "agents_get_roster_entry": None,
    "agents_get_org_chart": None,
    "agents_get_org_chart_department": None,
    "tools_list": None,
    "tools_get": None,
    "tools_list_compact": None,
    "prompts_list": NOT_PROVIDED,
    "prompts_get": NOT_PROVIDED,
    "prompts_create": NOT_PROVIDED,
    "prompts_update": NOT_PROVIDED,
    "prompts_delete": NOT_PROVIDED,
    "prompts_render": NOT_PROVIDED,
    "content_list_pages": None,
    "content_get_page": None,
    "content_create_page": NOT_PROVIDED,
    "content_put_section": NOT_PROVIDED,
    "content_get_settings": None,
    "content_put_settings": NOT_PROVIDED,
    "create_trigger_subscription": NOT_PROVIDED,
    "list_workspace_files": None,
    "get_workspace_file": None,
    "put_workspace_file": NOT_PROVIDED,
    "delete_workspace_file": False,
}


def sample(kind):
    """A value of a type, as plain as possible."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, vars(types))
        needed = [field for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]
        return kind(**{field.name: sample(hints[field.name]) for field in needed})
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return typing.get_args(kind)[0]
    plain = {str: "x", int: 1, float: 1.0, bool: True, list: [], dict: {}}
    return plain.get(origin or kind, {})


def call_plainly(name, run):
    """Calls a method with plain values for what it demands; anything named a run is a run."""
    bound = getattr(client, name)
    hints = typing.get_type_hints(getattr(OpenwopClient, name), vars(module))
    given = {}
    for parameter in inspect.signature(bound).parameters.values():
        if parameter.default is inspect.Parameter.empty:
            given[parameter.name] = run if parameter.name == "run_id" else sample(hints[parameter.name])
    return bound(**given)


def try_refusal(name, run):
    expected = REFUSED[name]
    if isinstance(expected, tuple):
        refused(*expected, lambda: call_plainly(name, run))
    elif isinstance(expected, int) and expected is not False:
        try:
            list(call_plainly(name, run))
        except urllib.error.HTTPError as error:
            assert error.code == expected, error
        else:
            raise AssertionError("it was not refused")
    else:
        got = call_plainly(name, run)
        assert got is expected, f"{got!r} instead of {expected!r}"


def main():
    public = [
        name
        for name, _ in inspect.getmembers(OpenwopClient, inspect.isfunction)
        if not name.startswith("_")
    ]
    assert len(public) > 50, public
    paths = client.discovery_openapi()["paths"]
    run = started()
    failures, offered = [], []
    for name in public:
        try:
            path, attempt = methods.get(name, (None, None))
            if attempt is not None and (path is None or path in paths):
                attempt()
                offered.append(name)
            elif name in REFUSED:
                try_refusal(name, run)
            else:
                raise AssertionError("there is no entry for this method: say what it should do")
        except Exception:
            failures.append(f"{name}:\n{traceback.format_exc()}")
    unknown = sorted((set(methods) | set(REFUSED)) - set(public))
    if unknown:
        failures.append(f"entries for methods that the client does not have: {unknown}")
    print(json.dumps({"offered": offered, "refused": sorted(set(public) - set(offered))}))
    if failures:
        sys.exit("\n".join(failures))


main()
