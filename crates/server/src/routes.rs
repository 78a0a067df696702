//! The table of operations. What is not here does not exist.

mod containers;
mod forks;
mod ladders;
mod notices;
mod purges;
mod resumption;
mod turns;
mod workers;

use crate::app::App;
use crate::operation::Operation;
use crate::page::PageQuery;
use crate::scope::Scope;
use crate::{
    cluster_api, dev, health, journal, keys_api, metrics, openapi, openintent, openwop, people_api,
    secrets_api, shape,
};

/// Every operation of this server.
pub(crate) fn operations(app: &App) -> Vec<Operation> {
    let mut all = everywhere();
    all.extend(openintent::operations());
    if app.test_clock().is_some() {
        all.extend(test_clock());
    }
    all
}

/// Every operation that any server may have.
#[cfg(test)]
pub(crate) fn documented() -> Vec<Operation> {
    everywhere().into_iter().chain(test_clock()).collect()
}

fn everywhere() -> Vec<Operation> {
    let families = [
        server(),
        workflows(),
        runs(),
        events(),
        control(),
        forks::forks(),
        containers::graphs(),
        containers::hands(),
        containers::groups(),
        containers::coordinators(),
        resumption::resumption(),
        bundles(),
        turns::turns(),
        interrupts(),
        inbox(),
        annotations(),
        artifacts(),
        secrets(),
        webhooks(),
        keys(),
        people(),
        ladders::configuration(),
        ladders::agents(),
        ladders::of_interrupts(),
        notices::notices(),
        purges::purges(),
        workers::workers_and_kinds(),
    ];
    families.into_iter().flatten().collect()
}

fn server() -> Vec<Operation> {
    use openwop::discovery;
    vec![
        Operation::get("/healthz", "live", "Whether the process answers.", health::live)
            .public()
            .answers::<health::Live>(200, "It does."),
        Operation::get("/readyz", "ready", "Whether the server should get traffic.", health::ready)
            .public()
            .answers::<health::Ready>(200, "It should."),
        Operation::get("/.well-known/openwop", "discover", "What works here.", discovery::show)
            .public()
            .conditional()
            .answers::<discovery::Capabilities>(200, "What works, family by family."),
        Operation::get("/v1/openapi.json", "openapi", "This document.", openapi::show)
            .public()
            .conditional()
            .answers::<shape::Object>(200, "An OpenAPI 3.1 document."),
        Operation::get("/metrics", "metrics", "What the server counts.", metrics::show)
            .scope(Scope::MetricsRead)
            .answers_content(200, metrics::CONTENT_TYPE, "The metrics, as OpenMetrics text."),
        Operation::get("/v1/cluster", "showCluster", "The servers that share the store.", cluster_api::show)
            .scope(Scope::MetricsRead)
            .answers::<cluster_api::ClusterView>(200, "Who is there, and who does what for all."),
    ]
}

fn workflows() -> Vec<Operation> {
    use openwop::workflows::{Checked, Pushed, Show, Versions, Workflows};
    use openwop::workflows::{list, of_run, push, show, validate, versions};
    vec![
        Operation::get("/v1/workflows", "listWorkflows", "Every workflow that can be started, by id.", list)
            .scope(Scope::ManifestRead)
            .answers::<Workflows>(200, "The workflows."),
        Operation::post(
            "/v1/workflows:validate",
            "validateWorkflow",
            "Checks a definition and keeps nothing.",
            validate,
        )
        .scope(Scope::ManifestRead)
        .may_take::<shape::Anything>()
        .takes_content("application/yaml")
        .answers::<Checked>(200, "Whether it is valid, and what is wrong with it."),
        Operation::put("/v1/workflows/{workflowId}", "pushWorkflow", "Makes a version of a workflow.", push)
            .scope(Scope::WorkflowsWrite)
            .takes::<shape::Object>()
            .takes_content("application/yaml")
            .answers::<Pushed>(201, "The new version.")
            .answers::<Pushed>(200, "The latest version, which has the same content.")
            .refuses(&["workflow_not_found", "capability_required"]),
        Operation::get("/v1/workflows/{workflowId}", "showWorkflow", "A definition as it was pushed.", show)
            .scope(Scope::ManifestRead)
            .query::<Show>()
            .answers::<shape::Object>(200, "The definition.")
            .refuses(&["workflow_not_found"]),
        Operation::get(
            "/v1/workflows/{workflowId}/versions",
            "listVersions",
            "The versions of a workflow.",
            versions,
        )
        .scope(Scope::ManifestRead)
        .answers::<Versions>(200, "The versions, newest first.")
        .refuses(&["workflow_not_found"]),
        Operation::get(
            "/v1/runs/{runId}/definition",
            "showDefinition",
            "The definition a run is pinned to.",
            of_run,
        )
        .scope(Scope::RunsRead)
        .answers::<shape::Object>(200, "The definition.")
        .refuses(&["run_not_found"]),
    ]
}

fn runs() -> Vec<Operation> {
    use openwop::runs::{Create, Created, Erase, Erased, Listing, Page, Shown};
    use openwop::runs::{create, erase, list, show, why};
    vec![
        Operation::post("/v1/runs", "createRun", "Starts a run.", create)
            .scope(Scope::RunsCreate)
            .takes::<Create>()
            .answers::<Created>(201, "The run is on disk.")
            .idempotent()
            .header("X-Dedup", "`enforce`: refuse if another run that was started so is under way for the same workflow and scope.")
            .refuses(&["workflow_not_found", "capability_required", "mock_provider_forbidden"])
            .refuses(&["dependency_not_found", "run_already_active", "unsupported_mock_provider"])
            .refuses(&["run_is_replay"]),
        Operation::get("/v1/runs", "listRuns", "Runs, newest first.", list)
            .scope(Scope::RunsRead)
            .query::<Listing>()
            .answers::<Page>(200, "A page of runs."),
        Operation::get("/v1/runs/{runId}", "showRun", "A run as it stands.", show)
            .scope(Scope::RunsRead)
            .conditional()
            .answers::<Shown>(200, "The run, or what is left of it.")
            .refuses(&["run_not_found"]),
        Operation::get(
            "/v1/runs/{runId}/why",
            "explainRun",
            "Why a run is not finished, or how it ended.",
            why,
        )
        .scope(Scope::RunsRead)
        .answers::<openwop::runs::Waits<'static>>(200, "What it waits for.")
        .refuses(&["run_not_found"]),
        Operation::post(
            "/v1/runs/{runId}/erase",
            "eraseRun",
            "Erases what an ended run said, for good.",
            erase,
        )
        .scope(Scope::RunsErase)
        .may_take::<Erase>()
        .answers::<Erased>(200, "It is gone.")
        .refuses(&["run_not_found", "run_not_ended"]),
    ]
}

fn events() -> Vec<Operation> {
    use openwop::events::{Page, Poll, Polled, RunEvent, Subscribe, poll, subscribe};
    const LAST: (&str, &str) =
        ("Last-Event-ID", "The last event that you have: its sequence number or its id.");
    vec![
        Operation::get(
            "/v1/runs/{runId}/events",
            "streamEvents",
            "Follows a run's events until it ends; as JSON, the events that there are.",
            subscribe,
        )
        .scope(Scope::RunsRead)
        .waits()
        .query::<Subscribe>()
        .header(LAST.0, LAST.1)
        .answers_as::<RunEvent>(200, "text/event-stream", "The events, in the form that is asked for.")
        .answers::<Page>(200, "The events, in the form that is asked for.")
        .refuses(&["run_not_found", "unsupported_stream_mode"]),
        Operation::get("/v1/runs/{runId}/events/poll", "pollEvents", "Events after a sequence.", poll)
            .scope(Scope::RunsRead)
            .waits()
            .query::<Poll>()
            .answers::<Polled>(200, "The events, and whether there are no more to come.")
            .refuses(&["run_not_found"]),
        Operation::get(
            "/v1/runs/{runId}/journal",
            "followJournal",
            "Follows a run's journal in Abide's own words until it ends; as JSON, what there is of it.",
            journal::follow,
        )
        .scope(Scope::RunsRead)
        .waits()
        .query::<journal::Follow>()
        .header(LAST.0, LAST.1)
        .answers_as::<journal::Entry>(200, "text/event-stream", "The events, in the form that is asked for.")
        .answers::<journal::Page>(200, "The events, in the form that is asked for.")
        .refuses(&["run_not_found"]),
    ]
}

fn bundles() -> Vec<Operation> {
    use openwop::bundle::{BundleQuery, DebugBundle, show};
    vec![
        Operation::get(
            "/v1/runs/{runId}/debug-bundle",
            "bundleRun",
            "What happened to a run, as one object to be handed on. Needs `runs:read` as well.",
            show,
        )
        .scope(Scope::AuditRead)
        .query::<BundleQuery>()
        .answers::<DebugBundle>(200, "The bundle, without anything secret.")
        .refuses(&["run_not_found"]),
    ]
}

/// What an answer to something that is over is told.
const CLOSED: &[&str] =
    &["interrupt_not_found", "interrupt_already_resolved", "portfolio_deadline_exceeded", "run_is_replay"];

fn interrupts() -> Vec<Operation> {
    use openwop::interrupts::replies::{Replied, ReplyBody, reply};
    use openwop::interrupts::{Resolved, ResumeWith, Which, answer, approve};
    vec![
        Operation::post(
            "/v1/runs/{runId}/interrupts/{nodeId}/asks/{askId}",
            "replyToAsk",
            "Tells those who decide what they wanted to know. The node stays as it is.",
            reply,
        )
        .scope(Scope::ApprovalsRespond)
        .takes::<ReplyBody>()
        .idempotent()
        .answers::<Replied>(200, "The answer is on disk, and is shown to those who decide.")
        .refuses(CLOSED)
        .refuses(&[
            "run_not_found",
            "ask_not_found",
            "ask_already_answered",
            "interrupt_cancelled",
            "interrupt_gone",
        ]),
        Operation::post(
            "/v1/runs/{runId}/interrupts/{nodeId}",
            "resolveInterrupt",
            "Answers what a node waits for.",
            answer,
        )
        .scope(Scope::ApprovalsRespond)
        .query::<Which>()
        .takes::<ResumeWith>()
        .idempotent()
        .answers::<Resolved>(200, "The answer is on disk, and the node has it.")
        .refuses(CLOSED)
        .refuses(&["run_not_found", "forbidden", "interrupt_cancelled", "interrupt_gone"])
        .refuses_under(422, "validation_error"),
        Operation::post(
            "/v1/runs/{runId}/approvals/{nodeId}",
            "resolveApproval",
            "Answers what a node waits for; the body is the answer itself.",
            approve,
        )
        .scope(Scope::ApprovalsRespond)
        .query::<Which>()
        .takes::<shape::Object>()
        .idempotent()
        .answers::<Resolved>(200, "The answer is on disk, and the node has it.")
        .refuses(CLOSED)
        .refuses(&["run_not_found", "forbidden"])
        .refuses_under(422, "validation_error"),
    ]
}

fn inbox() -> Vec<Operation> {
    use openwop::external_events::{ExternalEvent, Received, receive};
    use openwop::interrupts::{
        BulkResolve, BulkResolved, Inbox, Inspected, Resolved, ResumeWith, Wanted, answer_by_token, inbox,
        inspect, resolve_many,
    };
    vec![
        Operation::get("/v1/interrupts", "listInterrupts", "What waits for an answer, oldest first.", inbox)
            .scope(Scope::ApprovalsRespond)
            .query::<Wanted>()
            .answers::<Inbox>(200, "A page of open interrupts, and how many there are."),
        Operation::post(
            "/v1/interrupts:bulk-resolve",
            "bulkResolveInterrupts",
            "Answers many interrupts alike, or lists what that would do.",
            resolve_many,
        )
        .scope(Scope::ApprovalsRespond)
        .takes::<BulkResolve>()
        .idempotent()
        .answers::<BulkResolved>(
            200,
            "What became of each, or what would, in the order in which they were named.",
        ),
        Operation::post(
            "/v1/external-events",
            "receiveEvent",
            "Tells what happened elsewhere to whoever waits for it, or keeps it for those who will.",
            receive,
        )
        .scope(Scope::ApprovalsRespond)
        .takes::<ExternalEvent>()
        .answers::<Received>(200, "Those who waited have it, now or since it was told first.")
        .answers::<Received>(202, "It is kept.")
        .refuses(&["event_id_conflict", "events_full"]),
        Operation::get(
            "/v1/interrupts/{token}",
            "inspectInterrupt",
            "What a node waits for, shown to whoever holds a token. It changes nothing.",
            inspect,
        )
        .token()
        .answers::<Inspected>(200, "What is asked.")
        .refuses(CLOSED)
        .refuses(&["interrupt_expired"]),
        Operation::post(
            "/v1/interrupts/{token}",
            "resolveByToken",
            "Answers what a node waits for, with a token as the only credential.",
            answer_by_token,
        )
        .token()
        .takes::<ResumeWith>()
        .idempotent()
        .answers::<Resolved>(200, "The answer is on disk, and the node has it.")
        .refuses(CLOSED)
        .refuses(&["interrupt_expired", "forbidden"])
        .refuses_under(422, "validation_error"),
    ]
}

fn annotations() -> Vec<Operation> {
    use openwop::annotations::{Annotate, AnnotationDoc, Annotations, create, list};
    vec![
        // OpenWOP names no scope for it. It is something new about a run, so it takes the scope that makes new things:
        // a key that may only look must not write.
        Operation::post("/v1/runs/{runId}/annotations", "annotateRun", "Says something about a run.", create)
            .scope(Scope::RunsCreate)
            .takes::<Annotate>()
            .idempotent()
            .answers::<AnnotationDoc>(201, "It is on disk.")
            .refuses(&["run_not_found", "run_erased", "annotations_full"]),
        Operation::get(
            "/v1/runs/{runId}/annotations",
            "listAnnotations",
            "What was said about a run, oldest first.",
            list,
        )
        .scope(Scope::RunsRead)
        .query::<openwop::paging::Paging>()
        .answers::<Annotations>(200, "A page of annotations.")
        .refuses(&["run_not_found"]),
    ]
}

fn artifacts() -> Vec<Operation> {
    use openwop::artifacts::{ArtifactDoc, Artifacts, list, show};
    vec![
        Operation::get(
            "/v1/runs/{runId}/artifacts",
            "listArtifacts",
            "What a run made so far, oldest first.",
            list,
        )
        .scope(Scope::ArtifactsRead)
        .query::<openwop::paging::Paging>()
        .answers::<Artifacts>(200, "A page of artifacts.")
        .refuses(&["run_not_found", "run_erased"]),
        Operation::get("/v1/runs/{runId}/artifacts/{artifactId}", "showArtifact", "An artifact.", show)
            .scope(Scope::ArtifactsRead)
            .answers::<ArtifactDoc>(200, "The artifact, with what it holds.")
            .refuses(&["run_not_found", "artifact_not_found", "run_erased"]),
    ]
}

fn control() -> Vec<Operation> {
    use openwop::control::{Because, BulkCancel, BulkCancelled, Pause, Paused, Resumed, Stands};
    use openwop::control::{cancel, cancel_many, pause, resume};
    use openwop::holds::{HeldRun, HoldRun, ReleasedRun, hold, release};
    vec![
        Operation::post("/v1/runs/{runId}/cancel", "cancelRun", "Cancels a run.", cancel)
            .scope(Scope::RunsCancel)
            .may_take::<Because>()
            .idempotent()
            .answers::<Stands>(200, "How the run stands now: also if it had ended before.")
            .refuses(&["run_not_found"]),
        Operation::post("/v1/runs/{runId}:pause", "pauseRun", "Keeps a run's nodes from starting.", pause)
            .scope(Scope::RunsCancel)
            .may_take::<Pause>()
            .idempotent()
            .answers::<Paused>(202, "Nothing starts any more.")
            .refuses(&["run_not_found", "run_not_pausable", "run_is_replay"]),
        Operation::post("/v1/runs/{runId}:resume", "resumeRun", "Lets a paused run go on.", resume)
            .scope(Scope::RunsCancel)
            .may_take::<Because>()
            .idempotent()
            .answers::<Resumed>(202, "It goes on.")
            .refuses(&["run_not_found", "run_not_paused", "run_escalated", "run_is_replay"]),
        Operation::post(
            "/v1/runs/{runId}:hold",
            "holdRun",
            "Holds a run that works or waits: no node starts until it is released.",
            hold,
        )
        .scope(Scope::RunsCancel)
        .takes::<HoldRun>()
        .idempotent()
        .answers::<HeldRun>(202, "Nothing starts any more.")
        .refuses(&["run_not_found", "run_not_holdable", "run_escalated", "run_is_replay"]),
        Operation::post("/v1/runs/{runId}:release", "releaseRun", "Lets a held run go on.", release)
            .scope(Scope::RunsCancel)
            .may_take::<Because>()
            .idempotent()
            .answers::<ReleasedRun>(202, "It goes on.")
            .refuses(&["run_not_found", "run_not_held", "run_escalated", "run_is_replay"]),
        Operation::post("/v1/runs:bulk-cancel", "bulkCancelRuns", "Cancels many runs.", cancel_many)
            .scope(Scope::RunsCancel)
            .takes::<BulkCancel>()
            .idempotent()
            .answers::<BulkCancelled>(200, "What became of each, in the order in which they were named."),
    ]
}

fn secrets() -> Vec<Operation> {
    vec![
        Operation::get("/v1/secrets", "listSecrets", "The names of the secrets.", secrets_api::list)
            .scope(Scope::SecretsManage)
            .answers::<secrets_api::Secrets>(200, "The names; values are never shown."),
        Operation::put("/v1/secrets/{name}", "setSecret", "Sets a secret.", secrets_api::set)
            .scope(Scope::SecretsManage)
            .takes::<secrets_api::Set>()
            .answers_empty(204, "It is set."),
        Operation::delete("/v1/secrets/{name}", "removeSecret", "Removes a secret.", secrets_api::remove)
            .scope(Scope::SecretsManage)
            .answers_empty(204, "It is gone.")
            .refuses(&["secret_not_found"]),
    ]
}

fn webhooks() -> Vec<Operation> {
    use openwop::webhooks::{
        AddedWebhook, DeliveryListing, DeliveryPage, NewWebhook, OfTenant, Resend, Resent, Webhook,
        WebhookList, add, deliveries, enable, list, remove, resend, show,
    };
    let gone = &["subscription_not_found"];
    vec![
        Operation::post("/v1/webhooks", "registerWebhook", "Has events sent to a URL, signed.", add)
            .takes::<NewWebhook>()
            .answers::<AddedWebhook>(201, "The webhook and its secret, which is shown this once.")
            .idempotent()
            .refuses(&["webhook_url_rejected", "too_many"]),
        Operation::get("/v1/webhooks", "listWebhooks", "The webhooks, without their secrets.", list)
            .answers::<WebhookList>(200, "The webhooks."),
        Operation::get("/v1/webhooks/{webhookId}", "showWebhook", "A webhook and how it does.", show)
            .answers::<Webhook>(200, "The webhook.")
            .refuses(gone),
        Operation::delete("/v1/webhooks/{webhookId}", "removeWebhook", "Ends a webhook.", remove)
            .query::<OfTenant>()
            .answers_empty(204, "Nothing more is sent to it.")
            .refuses(gone),
        Operation::get(
            "/v1/webhooks/{webhookId}/deliveries",
            "listDeliveries",
            "What is on its way to a webhook, or was given up.",
            deliveries,
        )
        .query::<DeliveryListing>()
        .answers::<DeliveryPage>(200, "A page of deliveries, by run and sequence.")
        .refuses(gone),
        Operation::post(
            "/v1/webhooks/{webhookId}:resend",
            "resendDeliveries",
            "Sends dead letters once more.",
            resend,
        )
        .takes::<Resend>()
        .answers::<Resent>(200, "How many are on their way again.")
        .refuses(gone),
        Operation::post(
            "/v1/webhooks/{webhookId}:enable",
            "enableWebhook",
            "Tries a webhook again that was left alone or has failed.",
            enable,
        )
        .answers::<Webhook>(200, "The webhook.")
        .refuses(gone),
    ]
    .into_iter()
    .map(|operation| operation.scope(Scope::WebhooksManage))
    .collect()
}

fn keys() -> Vec<Operation> {
    use keys_api::{KeyPage, MadeKey, NewKey, Rotate, create, list, revoke, rotate};
    vec![
        Operation::post("/v1/keys", "createKey", "Makes an API key.", create)
            .scope(Scope::KeysManage)
            .takes::<NewKey>()
            .answers::<MadeKey>(201, "The key; its secret is shown this once.")
            .refuses(&["too_many"]),
        Operation::get("/v1/keys", "listKeys", "The tenant's keys, oldest first.", list)
            .scope(Scope::KeysManage)
            .query::<PageQuery>()
            .answers::<KeyPage>(200, "A page of keys, without their secrets."),
        Operation::delete("/v1/keys/{keyId}", "revokeKey", "Revokes an API key.", revoke)
            .scope(Scope::KeysManage)
            .answers_empty(204, "It opens nothing any more.")
            .refuses(&["key_not_found", "key_in_use"]),
        Operation::post("/v1/keys/{keyId}:rotate", "rotateKey", "Gives an API key a new secret.", rotate)
            .scope(Scope::KeysManage)
            .takes::<Rotate>()
            .answers::<MadeKey>(201, "The new key; its secret is shown this once.")
            .refuses(&["key_not_found", "key_not_active", "too_many"]),
    ]
}

fn people() -> Vec<Operation> {
    use people_api::{PeoplePage, PersonView, SetPerson, list, remove, set, show};
    vec![
        Operation::get("/v1/people", "listPeople", "The tenant's people, by principal.", list)
            .scope(Scope::PeopleRead)
            .query::<PageQuery>()
            .answers::<PeoplePage>(200, "A page of people."),
        Operation::get("/v1/people/{principal}", "showPerson", "A person.", show)
            .scope(Scope::PeopleRead)
            .answers::<PersonView>(200, "The person.")
            .refuses(&["person_not_found"]),
        Operation::put(
            "/v1/people/{principal}",
            "setPerson",
            "Enters a person, or replaces what was known.",
            set,
        )
        .scope(Scope::PeopleManage)
        .takes::<SetPerson>()
        .answers::<PersonView>(200, "The person as they stand in the directory now.")
        .refuses(&["person_not_found"]),
        Operation::delete("/v1/people/{principal}", "removePerson", "Forgets a person.", remove)
            .scope(Scope::PeopleManage)
            .answers_empty(204, "They are forgotten.")
            .refuses(&["person_not_found"]),
    ]
}

fn test_clock() -> Vec<Operation> {
    vec![
        Operation::get("/v1/dev/clock", "showClock", "The test clock.", dev::show)
            .answers::<dev::Now>(200, "What time it is."),
        Operation::post("/v1/dev/clock", "advanceClock", "Moves the test clock.", dev::advance)
            .takes::<dev::Advance>()
            .answers::<dev::Now>(200, "What time it is then."),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use abide_core::ErrorCode;

    #[test]
    fn every_operation_has_an_id_of_its_own_and_says_what_it_answers() {
        let all = documented();
        let ids: BTreeSet<_> = all.iter().map(|operation| operation.id).collect();
        let places: BTreeSet<_> =
            all.iter().map(|operation| (operation.method.as_str(), operation.path)).collect();
        assert_eq!((ids.len(), places.len()), (all.len(), all.len()));
        for operation in &all {
            assert!(!operation.answers.is_empty(), "{}", operation.id);
            assert!(operation.summary.ends_with('.'), "{}", operation.id);
            for code in &operation.refusals {
                assert!(
                    ErrorCode::find(code).is_some_and(|entry| entry.status >= 400),
                    "{}: {code}",
                    operation.id
                );
            }
        }
    }

    #[test]
    fn the_document_has_every_operation_and_no_name_for_two_schemas() {
        let document = openapi::Document::of(&documented());
        for operation in documented() {
            // What speaks to OpenIntent's clients is not in it.
            let served = document.serves(&operation.method, operation.path);
            assert_eq!(served, !operation.is_openintent, "{}", operation.id);
        }
    }
}
