//! What is kept beside an intent, and what happened to it.

use crate::openintent::events::{chain, list};
use crate::openintent::records::{
    access_requests, attachments, channels, costs, decisions, failures, messages, subscriptions,
};
use crate::operation::Operation;
use crate::scope::Scope;
use crate::shape;

/// Operations on what is kept beside an intent and decides nothing, and on what happened.
pub(super) fn operations() -> Vec<Operation> {
    let families = [
        of_decisions(),
        of_costs(),
        of_failures(),
        of_access(),
        of_channels(),
        of_messages(),
        of_hearing(),
        of_events(),
    ];
    families.into_iter().flatten().collect()
}

fn reads(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::RunsRead).answers::<shape::Object>(200, what)
}

fn lists(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::RunsRead).answers::<Vec<shape::Object>>(200, what)
}

fn writes(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::WorkPerform).takes::<shape::Object>().answers::<shape::Object>(200, what)
}

fn makes(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::WorkPerform).takes::<shape::Object>().answers::<shape::Object>(201, what)
}

fn forgets(operation: Operation) -> Operation {
    operation.scope(Scope::WorkPerform).answers_empty(204, "It is forgotten.")
}

fn of_decisions() -> Vec<Operation> {
    const DECISIONS: &str = "/api/v1/intents/{intentId}/decisions";
    const ARBITRATE: &str = "/api/v1/intents/{intentId}/arbitrate";
    const BY_COORDINATORS: &str = "/api/v1/intents/{intentId}/coordinator-decisions";
    vec![
        writes(
            Operation::post(DECISIONS, "oiRecordDecision", "Keeps what was decided.", decisions::record),
            "The decision.",
        ),
        reads(
            Operation::get(DECISIONS, "oiListDecisions", "What was decided.", decisions::list),
            "The decisions.",
        ),
        writes(
            Operation::post(
                ARBITRATE,
                "oiArbitrate",
                "Keeps that somebody else is to decide.",
                decisions::arbitrate,
            ),
            "The request.",
        ),
        writes(
            Operation::post(
                "/api/v1/decisions",
                "oiRecordCoordinatorDecision",
                "Keeps what a coordinator did.",
                decisions::record_of_coordinator,
            ),
            "What it did.",
        ),
        lists(
            Operation::get(
                BY_COORDINATORS,
                "oiListCoordinatorDecisions",
                "What coordinators did, newest first.",
                decisions::list_of_coordinator,
            ),
            "What they did.",
        ),
    ]
}

fn of_costs() -> Vec<Operation> {
    const COSTS: &str = "/api/v1/intents/{intentId}/costs";
    const ATTACHMENTS: &str = "/api/v1/intents/{intentId}/attachments";
    const ATTACHMENT: &str = "/api/v1/intents/{intentId}/attachments/{attachmentId}";
    vec![
        writes(
            Operation::post(COSTS, "oiRecordCost", "Keeps what something cost.", costs::record),
            "The cost.",
        ),
        reads(
            Operation::get(COSTS, "oiListCosts", "What it cost.", costs::list),
            "The costs, and their sums.",
        ),
        writes(
            Operation::post(ATTACHMENTS, "oiAddAttachment", "Keeps where something lies.", attachments::add),
            "The attachment.",
        ),
        lists(
            Operation::get(ATTACHMENTS, "oiListAttachments", "What belongs to it.", attachments::list),
            "The attachments.",
        ),
        forgets(Operation::delete(
            ATTACHMENT,
            "oiRemoveAttachment",
            "Forgets where something lies.",
            attachments::remove,
        )),
    ]
}

fn of_failures() -> Vec<Operation> {
    const POLICY: &str = "/api/v1/intents/{intentId}/retry-policy";
    const FAILURES: &str = "/api/v1/intents/{intentId}/failures";
    vec![
        writes(
            Operation::put(
                POLICY,
                "oiSetRetryPolicy",
                "Says how its agents try again.",
                failures::set_policy,
            ),
            "The policy.",
        ),
        reads(
            Operation::get(POLICY, "oiShowRetryPolicy", "How its agents try again.", failures::show_policy),
            "The policy.",
        ),
        writes(
            Operation::post(FAILURES, "oiRecordFailure", "Keeps that something failed.", failures::record),
            "The failure.",
        ),
        reads(Operation::get(FAILURES, "oiListFailures", "What failed.", failures::list), "The failures."),
    ]
}

fn of_access() -> Vec<Operation> {
    const REQUESTS: &str = "/api/v1/intents/{intentId}/access-requests";
    vec![
        writes(
            Operation::post(REQUESTS, "oiRequestAccess", "Asks to be let in.", access_requests::request),
            "The request.",
        ),
        reads(
            Operation::get(
                REQUESTS,
                "oiListAccessRequests",
                "Who asked to be let in.",
                access_requests::list,
            ),
            "The requests.",
        ),
        writes(
            Operation::post(
                "/api/v1/intents/{intentId}/access-requests/{requestId}/approve",
                "oiApproveAccess",
                "Lets somebody in who asked.",
                access_requests::approve,
            ),
            "The request.",
        ),
        writes(
            Operation::post(
                "/api/v1/intents/{intentId}/access-requests/{requestId}/deny",
                "oiDenyAccess",
                "Does not let somebody in who asked.",
                access_requests::deny,
            ),
            "The request.",
        ),
    ]
}

fn of_channels() -> Vec<Operation> {
    const ALL: &str = "/api/v1/intents/{intentId}/channels";
    const ONE: &str = "/api/v1/channels/{channelId}";
    vec![
        makes(Operation::post(ALL, "oiOpenChannel", "Opens a channel.", channels::open), "The channel."),
        lists(Operation::get(ALL, "oiListChannels", "Its channels.", channels::list), "The channels."),
        reads(
            Operation::get(ONE, "oiShowChannel", "A channel as it stands.", channels::show),
            "The channel.",
        ),
        writes(
            Operation::patch(ONE, "oiChangeChannel", "Changes a channel.", channels::update),
            "The channel.",
        ),
        Operation::delete(ONE, "oiCloseChannel", "Closes a channel.", channels::close)
            .scope(Scope::WorkPerform)
            .answers::<shape::Object>(200, "It is closed."),
    ]
}

fn of_messages() -> Vec<Operation> {
    const ALL: &str = "/api/v1/channels/{channelId}/messages";
    const ONE: &str = "/api/v1/channels/{channelId}/messages/{messageId}";
    const REPLY: &str = "/api/v1/channels/{channelId}/messages/{messageId}/reply";
    vec![
        makes(
            Operation::post(ALL, "oiSendMessage", "Says something in a channel.", messages::send),
            "The message.",
        ),
        lists(
            Operation::get(ALL, "oiListMessages", "What was said in a channel.", messages::list),
            "The messages.",
        ),
        reads(Operation::get(ONE, "oiShowMessage", "What somebody said.", messages::show), "The message."),
        writes(
            Operation::patch(ONE, "oiMarkMessage", "Says that it was read.", messages::mark),
            "The message.",
        ),
        makes(
            Operation::post(REPLY, "oiReply", "Answers what somebody said.", messages::reply),
            "The answer.",
        ),
    ]
}

fn of_hearing() -> Vec<Operation> {
    const ALL: &str = "/api/v1/subscriptions";
    const ONE: &str = "/api/v1/subscriptions/{subscriptionId}";
    vec![
        writes(
            Operation::post(
                ALL,
                "oiSubscribe",
                "Keeps what somebody wants to hear of.",
                subscriptions::subscribe,
            ),
            "The subscription.",
        ),
        reads(
            Operation::get(ALL, "oiListSubscriptions", "Who wants to hear of it.", subscriptions::list),
            "The subscriptions.",
        ),
        forgets(Operation::delete(
            ONE,
            "oiUnsubscribe",
            "Forgets what somebody wanted to hear of.",
            subscriptions::unsubscribe,
        )),
    ]
}

fn of_events() -> Vec<Operation> {
    const EVENTS: &str = "/api/v1/intents/{intentId}/events";
    let proof = |path, id| {
        reads(Operation::get(path, id, "Proofs of logs, which are not here.", chain::no_proofs), "Never.")
    };
    vec![
        lists(
            Operation::get(EVENTS, "oiListEvents", "What happened, newest first.", list::list),
            "The events.",
        ),
        writes(Operation::post(EVENTS, "oiPostEvent", "Tells of something.", list::post), "The event."),
        reads(
            Operation::get(
                "/api/v1/intents/{intentId}/events/verify",
                "oiVerifyEvents",
                "Checks that nothing was changed that was recorded.",
                chain::verify,
            ),
            "Whether the chain holds, and where it breaks.",
        ),
        proof("/api/v1/checkpoints", "oiListCheckpoints"),
        proof("/api/v1/checkpoints/{checkpointId}", "oiShowCheckpoint"),
        proof("/api/v1/checkpoints/{checkpointId}/proof/{eventId}", "oiShowProof"),
        proof("/api/v1/verify/consistency", "oiVerifyConsistency"),
    ]
}
