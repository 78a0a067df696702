//! Every error code a user can meet, declared once.
//!
//! The HTTP envelope takes its status from here, the CLI its advice, and `docs/errors.md` is made of it.

/// One error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status it comes with, or 0 for codes that only stand in a run's own error.
    pub status: u16,
    /// What happened.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// The table.
pub fn error_codes() -> &'static [ErrorCode] {
    TABLE
}

impl ErrorCode {
    /// The entry for a code.
    pub fn find(code: &str) -> Option<Self> {
        TABLE.iter().copied().find(|entry| entry.code == code)
    }
}

macro_rules! table {
    ($($code:literal $status:literal $meaning:literal $remedy:literal;)*) => {
        const TABLE: &[ErrorCode] =
            &[$(ErrorCode { code: $code, status: $status, meaning: $meaning, remedy: $remedy }),*];
    };
}

table! {
    "validation_error" 400
        "The request, or a value in it, is not what the endpoint takes. Nothing was changed."
        "Read `message` and `details`: they name the field and what it should be.";
    "unsupported_stream_mode" 400
        "The stream mode is unknown, or `values` is mixed with another."
        "Ask for one of `details.supported`, or for several of updates, messages and debug with commas between.";
    "unsupported_mock_provider" 400
        "The run asks for a mock provider that this server does not have."
        "Ask for one of `details.supportedProviders`.";
    "webhook_url_rejected" 400
        "Events can't be sent to this URL: it is not https, or not an address of the public internet. Nothing was changed."
        "Read `message`: it says what is wrong with the URL. The operator can allow private addresses with --allow-net.";
    "unauthenticated" 401
        "The request carries no API key and no token, or one that is malformed, unknown or not genuine."
        "Send `Authorization: Bearer <key>` or `X-API-Key: <key>`. The CLI takes the key from ABIDE_API_KEY; `abide keys create` makes one.";
    "key_expired" 401
        "The API key is genuine, but its time is over."
        "Use the key that took its place, or make one with `abide keys create`.";
    "key_revoked" 401
        "The API key is genuine, but somebody revoked it."
        "Use another key. `abide keys list` shows which there are.";
    "token_expired" 401
        "The token of the identity provider is genuine, but its time is over."
        "Get a new token from the identity provider.";
    "forbidden" 403
        "The key or token is valid but may not do this. `details.scopeRequired` names the scope that it lacks."
        "Use a key that may, or ask whoever manages the keys for one.";
    "mock_provider_forbidden" 403
        "The run asks for a mock provider in `configurable.mockProvider`, which only tests may use."
        "Leave `configurable.mockProvider` out. A server that is itself being tested plays mocks if it is started with --conformance.";
    "not_found" 404
        "There is no such path."
        "Check the path against the guide. Every path starts with /v1.";
    "run_not_found" 404
        "Your tenant has no run with this id."
        "Check the id with `abide run list`. A run of another tenant looks the same as none.";
    "workflow_not_found" 404
        "There is no workflow with this id, or no such version of it."
        "Check the id with `abide workflow list`. Push the definition with `abide workflow push`, or put it into the folder that the server is started with (--workflows).";
    "secret_not_found" 404
        "Your tenant has no secret with this name."
        "Check the name with `abide secrets list`.";
    "subscription_not_found" 404
        "Your tenant has no webhook with this id."
        "Check the id with `abide webhook list`.";
    "artifact_not_found" 404
        "The run has no artifact with this id."
        "Check the id with `abide run artifacts RUN`. A run has artifacts only of nodes whose definition has an `artifactType`.";
    "key_not_found" 404
        "Your tenant has no API key with this id."
        "Check the id with `abide keys list`.";
    "person_not_found" 404
        "Your tenant's directory has nobody with this principal."
        "Check the principal with `abide people list`.";
    "agent_not_found" 404
        "Your tenant has no record of an agent of this name."
        "Check the name with `abide agent list`.";
    "notice_not_found" 404
        "Your tenant has no message to people with this id."
        "Check the id with `abide notify list`.";
    "channel_not_found" 404
        "The server has no channel of this name."
        "Check the name with `GET /v1/channels`. Channels are configured under [channels] of the server's configuration.";
    "task_not_found" 404
        "The run has no task with this id."
        "Check the id: a task is known only in the run that it was posted to.";
    "plan_not_found" 404
        "The run has no plan with this id."
        "Check the id: a plan is known only in the run that it was posted to.";
    "ask_not_found" 404
        "Nobody asked this back about an open interrupt of the node."
        "`GET /v1/runs/{runId}` shows what was asked in `interrupt.exchanges`, each with its id.";
    "interrupt_not_found" 404
        "Your tenant has no such interrupt at this node, or the token is not one of this server's, whole and unchanged."
        "Look at the run's open interrupts. A link has to be used as it was sent, to its last character; ask for a new one if it does not work.";
    "dependency_not_found" 404
        "Your tenant has no such run to wait for, or the run does not wait for it. A group can't be waited for."
        "Check the id with `abide run list`, and what the run waits for with `abide graph show`.";
    "coordinator_not_found" 404
        "The run has no such lease of a coordinator, or it is over."
        "`GET /v1/runs/{runId}/coordinator` shows the one that somebody has.";
    "group_not_found" 404
        "Your tenant has no group with this id."
        "Check the id with `abide group list`. A group of another tenant looks the same as none.";
    "member_not_found" 404
        "The run does not belong to the group."
        "Check with `abide group show`.";
    "method_not_allowed" 405
        "The path exists, but not with this method."
        "Check the method against the guide.";
    "request_timeout" 408
        "The body of the request did not come in time. Nothing was changed."
        "Send the request again, as a whole.";
    "run_is_replay" 409
        "The run replays another one: it takes no answers, can't be paused or resumed, and goes no further than that one did."
        "Answer the run that it replays, or fork that one with mode `branch` and answer the branch. A replay can be cancelled.";
    "run_not_ended" 409
        "The run has not ended, and only a run that has ended can be erased."
        "Cancel the run or wait for its end, and erase it then.";
    "illegal_transition" 409
        "The task or the plan can't do this as it stands. Nothing was changed."
        "Read `message`: it says where it stands, and from where this can be done.";
    "access_denied" 403
        "Access to the intent is closed to whoever asks, or they may do less with it than they want. Nothing was changed."
        "Have somebody who may administer it grant it: `POST /api/v1/intents/{id}/acl/entries`.";
    "governance_violation" 403
        "The policy of the intent is against it. Nothing was changed."
        "`details.rule` names the rule, and `message` says what it wants.";
    "lease_not_found" 404
        "There is no such lease, it is over, or another agent has it."
        "Acquire one: `POST /api/v1/intents/{id}/leases`. `X-Agent-ID` says in whose name.";
    "agent_not_assigned" 404
        "The agent is not assigned to the intent."
        "`GET /api/v1/intents/{id}/agents` lists who is.";
    "record_not_found" 404
        "The intent has nothing of this kind with this id."
        "List what there is of the kind, and take an id from there.";
    "records_full" 409
        "The intent has as many records of this kind as one may have. Nothing was changed."
        "Keep further ones elsewhere, or beside another intent.";
    "record_decided" 409
        "Somebody has decided about the record already, or closed it. Nothing was changed."
        "Read the record: it says who did, and how.";
    "access_entry_not_found" 404
        "There is no such entry among those who may see the intent."
        "`GET /api/v1/intents/{id}/acl` lists them with their ids.";
    "intent_not_driven" 409
        "The run follows a workflow whose nodes do their own work, so nobody patches its state or completes it."
        "Answer what it asks, or start an intent: `POST /api/v1/intents`.";
    "intent_not_suspended" 409
        "The intent waits for nobody, so there is nothing to answer or to cancel. Nothing was changed."
        "Read it again: somebody may have answered, or its time is over.";
    "suspension_mismatch" 409
        "The intent waits for something else than what was named. Nothing was changed."
        "Read `state._suspension.id`, and answer that.";
    "lease_held" 409
        "Somebody has this part of the intent to themselves."
        "Wait until `details.existing_lease.expires_at`, or acquire another scope.";
    "invalid_choice" 422
        "The answer is none of those that there are to choose from. The intent waits as before."
        "Give the `value` of one of `detail.valid_choices`.";
    "version_conflict" 409
        "Somebody changed it since you read it. Nothing was changed."
        "Read it again, and send the request with its version of now if it still makes sense.";
    "ask_already_answered" 409
        "What was asked back has been answered. The first answer counts."
        "Nothing: those who decide have an answer.";
    "interrupt_already_resolved" 409
        "Somebody was faster, or the run has ended: the interrupt is closed. Nothing was changed."
        "Look at the run: it shows how the interrupt was answered and how the run went on.";
    "notice_not_dead" 409
        "The message was not given up, or nothing waits for an answer any more. Nothing was changed."
        "Look at it with `abide notify list`. What waits is tried again by itself.";
    "annotations_full" 409
        "The run has as many annotations as one may have."
        "Keep further remarks elsewhere, or annotate another run.";
    "event_id_conflict" 409
        "Another event was told under the same `eventId`: its type or its payload was different. Nothing was changed."
        "Give each event an `eventId` of its own, and send a repeat exactly as it was sent first.";
    "events_full" 429
        "As many events are kept as may be kept until a run asks for them. Nothing was changed."
        "Send the event again later. If nobody will ever ask for such events, stop sending them.";
    "run_erased" 410
        "What the run read and wrote was erased, so there is nothing left to look at or to remark on."
        "Nothing brings it back. `abide run show RUN` tells what is left of it.";
    "interrupt_expired" 410
        "The token is genuine, but its time is over. The interrupt may still be open. Nothing was changed."
        "Read the run again, which gives a new token, or ask whoever sent the link for a new one.";
    "interrupt_gone" 410
        "The interrupt went away with the run that the asking run belonged to. Nothing was changed."
        "Nothing is left to answer. Look at the parent run for why it ended.";
    "key_in_use" 409
        "A key can't revoke itself, so that whoever manages keys is not locked out."
        "Revoke it with another key, or rotate it with `--overlap 0s`.";
    "key_not_active" 409
        "The key has expired or was revoked, so it can't be rotated."
        "Make a new one with `abide keys create`.";
    "too_many" 409
        "Your tenant has as many of these as a server keeps."
        "Ask the operator; the bounds stand in the guide.";
    "run_already_active" 409
        "The request says `X-Dedup: enforce`, and another run that was started so is under way for the same workflow and scope. Nothing was started."
        "Look at the run in `details.activeRunId`. Wait for its end or cancel it, name another `scopeId`, or leave the header out.";
    "run_not_pausable" 409
        "The run is paused already, is about to be, is being cancelled or has ended. Nothing was changed."
        "Look at `details.runStatus`.";
    "run_not_paused" 409
        "The run is not paused, so it can't be resumed. Nothing was changed."
        "Look at `details.runStatus`.";
    "run_coordinated" 409
        "Somebody coordinates the run already, and nobody else may. `details.agent` is who."
        "Have them hand it over, or wait until they are done or are given up.";
    "run_over" 409
        "The run has ended, so nothing can be done about it any more. Nothing was changed."
        "`GET /v1/runs/{runId}` tells how it ended.";
    "run_blocked" 409
        "The run waits for others, or for whoever activates it, so nobody can have its node yet."
        "`GET /v1/runs/{runId}/graph` tells for whom. `details.reason` is why.";
    "run_not_draft" 409
        "The run is no draft, so there is nothing to activate."
        "Nothing needs to be done: it has begun, or waits for others.";
    "dependency_circle" 409
        "The run that was to be waited for waits for this one already, directly or by way of others. Nothing was changed."
        "Look at both with `abide graph show`, and take another dependency away first if this one is right.";
    "group_unfinished" 409
        "The group has members that have not completed, so it can't be closed."
        "Wait for them or remove them, allow partial completion with `abide group set`, or abandon the group.";
    "portfolio_deadline_exceeded" 409
        "The deadline of a group has passed that the run belongs to, so nobody is waited for and the answer is not taken. The run is abandoned."
        "Start the work again, in a group with a later deadline.";
    "node_claimed" 409
        "Somebody else has the node. `details.agent` is who."
        "Wait until they give it back or are through; an operator can give it back in their name.";
    "node_not_claimed" 409
        "Nobody has the node, or it is over, so nobody can say what came of it."
        "Claim it first, with `abide hand claim`.";
    "node_asking" 409
        "Whoever has the node waits for the answer to what was asked last."
        "Answer that first: it is in the inbox.";
    "children_unfinished" 409
        "Children of the run have not completed, so it can't complete either."
        "Wait for them: `GET /v1/runs/{runId}/graph` tells how they stand.";
    "run_not_holdable" 409
        "The run is held this way already, is being cancelled or has ended. Nothing was changed."
        "Look at `details.runStatus` and `details.hold`. A pause becomes a stop and the other way round with the other mode.";
    "run_not_held" 409
        "Nobody holds the run, so there is nothing to release. Nothing was changed."
        "Look at `details.runStatus`.";
    "run_paused" 409
        "The run is paused, so it can't be resumed after an interruption. Nothing was changed."
        "Lift the pause with `abide run resume RUN`: it is looked at then whether the run may go on.";
    "run_not_interrupted" 409
        "No work of the run was interrupted, so there is nothing to resume. Nothing was changed."
        "Look at `abide run why RUN`. A pause is lifted with `abide run resume RUN`.";
    "run_escalated" 409
        "The run was interrupted and may not be resumed by itself; lifting a pause does not let it go on. Nothing was changed."
        "Read `abide resume status RUN`. Go on with `abide resume now RUN`, or answer the question in the inbox.";
    "turn_not_waiting" 409
        "No turn of the run waits for its provider, or not that of this node; or several do, and none was named. Nothing was changed."
        "Look at `abide turn list RUN`, and name a node whose turn waits; `details.waiting` lists them.";
    "run_not_truncatable" 409
        "The journal of the run can't be cut: it is good, nothing would be left of it, or others have acted on what would be dropped. Nothing was changed."
        "Read `message`: it says why. If the journal is damaged, restore the last backup.";
    "resume_missing_checkpoint" 409
        "There is no place to resume the run from: it has ended, or no event of it can be read. It is recorded that this was asked for; nothing else was changed."
        "A run that has ended is not resumed: start another. If its journal can't be read, restore the last backup.";
    "resume_unknown_interruption_class" 409
        "Nobody knows what interrupted the run, so it is not resumed. It is recorded that this was asked for; nothing else was changed."
        "Upgrade if a newer version recorded it, or name the class: `abide resume now RUN --force --reason … --interruption-class CLASS`.";
    "resume_non_idempotent_step" 409
        "A step would be done again that is not marked idempotent, or can't be undone, and may have been done. It is recorded that this was asked for; nothing else was changed."
        "Find out at the other side whether it was done, and approve the step: `abide resume now RUN --approve-step NODE`.";
    "resume_missing_runtime_artifacts" 409
        "The definition, the snapshot or the journal of the run can't be read or was changed. It is recorded that this was asked for; nothing else was changed."
        "Run `abide verify`. Restore the last backup, or cut a damaged journal off: `abide resume now RUN --force --truncate --reason …`.";
    "resume_attempt_limit_reached" 409
        "The run was resumed as often as it may be. It is recorded that this was asked for; nothing else was changed."
        "See `abide resume status RUN` for what fails again and again. Go on all the same with `abide resume now RUN --force --reason …`.";
    "resume_blocked_cooldown" 409
        "The run was resumed a moment ago and goes on by itself after `details.decision.cooldown_seconds_remaining` seconds. It is recorded that this was asked for; nothing else was changed."
        "Wait, or go on at once with `abide resume now RUN --force --reason …`.";
    "idempotency_in_flight" 409
        "A request with the same `Idempotency-Key` is being carried out."
        "Repeat the request with the same key after `details.retryAfter` seconds; it gets the first one's answer.";
    "idempotency_key_mismatch" 409
        "The `Idempotency-Key` was used for a request with another body. Nothing was changed."
        "Use a new key for a new request. To repeat a request, send the very same body.";
    "payload_too_large" 413
        "The request body is larger than the server takes. Nothing was changed."
        "Send less: pass a reference to large data instead of the data.";
    "upstream_intent_suspended" 422
        "An input of the node comes from a run that waits for people. Whoever asked is remembered, and gets the node once that run has completed."
        "Nothing needs to be done. `details` names the run, and until when it waits at the latest: answer it in the inbox.";
    "unresolvable_input" 422
        "Inputs of the node come from nowhere: what should give them has not completed, or gave something else."
        "`details.unresolvable` lists them. Check what the phases before this one have produced.";
    "outputs_unfit" 422
        "What came of the node is not what its definition says. Nothing was changed, and whoever has the node still has it."
        "`details.missing` and `details.type_errors` list what to change.";
    "conversation_not_found" 422
        "The run has opened no conversation with this id. An id of another run, tenant or server is never taken for one."
        "Open the conversation first, and take over its `conversationId`: `nodes.<node>.outputs.conversationId`.";
    "conversation_closed" 422
        "The conversation is closed, so that no turn can be taken in it and it can't be closed again."
        "Open another conversation, or take the turn before the node that closes it.";
    "conversation_busy" 422
        "The conversation would be opened or closed while something else is asked in it."
        "Wait for the open turn before closing, and ask for one thing after the other.";
    "conversation_id_taken" 422
        "Another conversation of the tenant has this id, or had it. Nothing of the conversation was opened."
        "Choose another `conversationId`, or leave it out: then it gets one that nobody has.";
    "fork_beyond_log" 422
        "The run has no event with the sequence that it is to be forked at."
        "Use a `fromSeq` from 0 to `details.events`. `abide run events RUN` shows the sequences.";
    "fork_too_large" 422
        "The run has more events or bytes than a fork may begin with, or than can be compared."
        "Start a new run instead. A fork may have 10,000 events and 16 MiB.";
    "capability_required" 422
        "The workflow uses a node kind behind a capability that this server does not offer."
        "Remove the node that `details` names, or use a server that advertises the capability.";
    "interrupt_cancelled" 422
        "The run was cancelled, and the interrupt with it. Nothing was changed."
        "Nothing is left to answer. Start the run again if its work is still needed.";
    "rate_limited" 429
        "The key, or its tenant, asks more often than it may. Nothing was changed."
        "Wait as long as `Retry-After` says. The operator sets the rates with --rate-key and --rate-tenant.";
    "internal_error" 500
        "Something failed inside the server. A commit that was not acknowledged may or may not have happened."
        "Look for `details.correlationId` in the server's log. Ask for the state before you repeat the request.";
    "capability_not_provided" 501
        "What was asked for belongs to a family of operations that this server does not offer. As the error of a run: a node's kind is known to nobody here, so the run failed when it came to that node."
        "Read `/.well-known/openwop` for what is offered. Check the spelling of the node's `typeId`.";
    "unavailable" 503
        "The server is shutting down, has as many connections or as much to do as it takes on at once, or the run changes too quickly. During an upgrade: a newer server has gone on with the run, and this one can't read it. Nothing was taken in."
        "Try again after the seconds in `Retry-After`.";
    "store_unavailable" 503
        "The server can't reach the database that it shares with others, or has been away from it for so long that the others do its work. Nothing was changed."
        "Try again after the seconds in `Retry-After`, at this server or another. The operator: check that PostgreSQL is up and takes writes; the server goes on by itself when it does.";
    "node_execution_failed" 0
        "A node ran and failed for good."
        "Read the message: it is the node's own.";
    "input_missing" 0
        "A node's input points at a variable or an output that is not set."
        "Pass the variable as an input, give it a default, or mark the port optional.";
    "input_too_large" 0
        "A node's inputs are larger than a journal should hold."
        "Pass a reference to large data instead of the data.";
    "invalid_delay" 0
        "A core.delay got no usable duration."
        "Give a whole number of milliseconds in `inputs.delayMs`, `config.ms` or `config.durationMs`.";
    "invalid_config" 0
        "A node's config makes no sense. Only a definition that an older version took in can hold one."
        "Correct the config as the message says and start a new run.";
    "expression_failed" 0
        "An expression does not fit the data that it met."
        "Read the message: it names the expression and what it met. Ask with has() before reading what may be missing.";
    "expression_too_costly" 0
        "An expression took more steps than one may."
        "Let it look at less data, or split it into several nodes.";
    "no_branch" 0
        "No case of a core.branch held, and it has no default."
        "Add a `default` to the node, or a case for the data that it met.";
    "variable_type" 0
        "A node or a child would have given a declared variable a value of another type."
        "Change the declared type of the variable, or what is assigned to it.";
    "variables_too_large" 0
        "The variables or the channels of a run would have become larger than a run carries along."
        "Pass a reference to large data instead of the data.";
    "channel_schema_violation" 0
        "What a node wrote to a channel does not fit the schema that the channel declares."
        "Write a value that fits, or change the schema in `channels`.";
    "channel_write_invalid" 0
        "What a node wrote to a channel is nothing that the channel's reducer can join to what is there."
        "Write a value of the kind that the reducer takes, or declare another reducer.";
    "channel_too_large" 0
        "A channel would have become larger than it may be."
        "Write less to it, or pass references instead of data.";
    "recursion_limit_exceeded" 0
        "The run executed as many nodes as it may."
        "Raise `configurable.recursionLimit`, or end the loop that takes so many.";
    "run_timeout" 0
        "The run lasted longer than it may. The time for which it was paused does not count."
        "Raise `configurable.runTimeoutMs` or the definition's `settings.timeout`, whichever is less.";
    "approval_rejected" 0
        "Somebody decided against what an approval gate asked for, and no edge routes that."
        "Read `details` for who and why. To go on after a rejection, add an edge whose condition asks for it: output.action == 'reject'.";
    "approval_timeout" 0
        "Nobody decided in the time that an approval gate gives, which counts as a rejection."
        "Raise the gate's `timeoutMs`, or route the failure with an edge under any_failed.";
    "input_timeout" 0
        "Nobody answered a node's question, however often they were told, and its fallback is to fail (InputTimeoutError)."
        "See who was told with `abide ladder explain`, and start the run anew. Raise `max_attempts` or `interval_seconds`, or give a `fallback_value`.";
    "invalid_ladder" 0
        "A node asks with a ladder that contradicts its question: the message names the key of `settings.abide.ladder`."
        "Change that key in the definition, and start the run anew.";
    "interrupt_timeout" 0
        "Nobody answered in the time that the node gives (InterruptTimeoutError)."
        "Raise `timeoutMs`, or route the failure with an edge under any_failed.";
    "interrupt_key_conflict" 0
        "Two questions of one run have the same key, but another kind or another resumeSchema; or a key was given that stands for a question without one."
        "Give each question its own `key`, or none.";
    "interrupt_limit" 0
        "The run has as many open interrupts as one may have, or its questions and answers are too large together."
        "Ask for less at once, and keep large artifacts elsewhere with a reference to them.";
    "invalid_interrupt" 0
        "What a node asks for is not what its kind of interrupt takes. Nothing was asked."
        "Read the message: it names each place and what it should be.";
    "decision_declined" 0
        "A supervisor was not sure enough of what it decided, and somebody decided against it."
        "Look at the run's answers for who. Route the failure with an edge under any_failed, or have the supervisor decide anew.";
    "loop_limit_exceeded" 0
        "A loop went back as often as it may."
        "Raise the loop's `maxIterations` or `configurable.maxLoopIterations`, or let a condition end the loop.";
    "dispatch_limit_exceeded" 0
        "A core.dispatch ran as often as it may."
        "Raise its `iterationCap`, or let its supervisor terminate earlier.";
    "fan_out_unsupported" 0
        "A core.dispatch was given several workers at once, and its policy is to reject that."
        "Set its `fanOutPolicy` to `sequential`, or plan one worker at a time.";
    "replay_source_missing" 0
        "A replay came to a node that needs something from outside, and the run that is replayed has recorded nothing of it: the two went different ways before."
        "Look at the events `replay.diverged` before it, in the stream mode `debug` or with `abide run diff`: the first tells where it began.";
    "child_failed" 0
        "The child run that a node waited for failed, or could not be started."
        "Look at the child that `details` names. Set `onChildFailure` to `absorb` if the parent should go on.";
    "child_cancelled" 0
        "The child run that a node waited for was cancelled."
        "Look at the child that `details` names. Set `onChildFailure` to `absorb` if the parent should go on.";
    "child_depth_exceeded" 0
        "A run would have started a child too many runs below the first."
        "Look for a workflow that calls itself without end.";
    "child_refused" 0
        "A child run could not be started, because its workflow refused what the parent gave it."
        "Read the message: it names the input. Correct `inputMapping`, or the child's variables.";
    "outcome_unknown" 0
        "A server or a worker stopped in the middle of something, so nobody knows whether it was carried out. It was not done again."
        "Ask the other system. If doing it twice is as good as once, set `settings.abide.idempotent` on the node.";
    "secret_missing" 0
        "A request names a secret that the tenant does not have, or that can't be opened with this keyring."
        "Set it with `abide secrets set NAME`, and start the run again.";
    "http_request_invalid" 0
        "A core.http.request can't be sent as it is written."
        "Read the message: it says which part of the request is wrong.";
    "http_address_refused" 0
        "The host of a request is not an address of the public internet."
        "Correct the URL, or ask the operator to allow the address with --allow-net.";
    "http_redirect_refused" 0
        "The other server redirected a request to where it can't follow."
        "Request the final URL.";
    "http_redirects_exceeded" 0
        "The other server redirected a request more often than the node follows."
        "Request the final URL, or raise the node's `maxRedirects`.";
    "http_response_too_large" 0
        "The answer to a request is larger than the node takes in."
        "Ask for less, or raise the node's `maxResponseBytes`.";
    "http_timeout" 0
        "The other server did not answer in time. It may have carried out the request all the same."
        "Check the other server, or raise the node's `timeoutMs`.";
    "http_unreachable" 0
        "The other server can't be reached, so nothing was sent."
        "Check the host, the port and the server's certificate.";
    "http_interrupted" 0
        "The connection broke before the answer was complete. The other server may have carried out the request."
        "Ask the other system what became of the request.";
    "http_status" 0
        "The other server answered with a status that says no."
        "Read `details.status` and `details.body`. Correct the request, or list the status in `acceptStatuses`.";
    "stale_fence" 409
        "A worker spoke for a task that it does not have any more: it was handed out again, or it is over. Nothing was changed."
        "Drop what you have of the task. If it happens often, the worker is silent for too long: raise its lease, or do less at once.";
    "worker_unknown" 404
        "No worker with this session is known: it was silent for too long, it left, or the server was started anew."
        "Register it again with the same session, and say what it has in `holding`.";
    "worker_protocol" 400
        "The worker speaks a version of the protocol that this server does not."
        "Use an SDK whose version fits the server's. `details.supported` names the versions that it speaks.";
    "op_skipped" 409
        "An operation on the same task before this one in the same request failed, so this one was not tried."
        "See to the one that failed, and send this again if it still makes sense.";
    "hook_unknown" 404
        "The worker does not have such a call of its agent: it is over, or another worker has it."
        "Drop it.";
    "kind_not_found" 404
        "No worker of your tenant has ever provided this kind of node."
        "Check the name with `abide kind list`.";
    "run_ending" 409
        "The run is being cancelled or has failed, so nothing new begins in it. Nothing was changed."
        "Stop the task, and say so with `fail` and the class `cancelled`.";
    "code_changed" 409
        "The code of a worker asks for something else than it did before, under the same name or at the same place."
        "Give new things new names, and let runs that began with the old code finish on it with `ctx.version`.";
    "step_limit" 409
        "One execution of a node has recorded as many steps as it may."
        "Do the work in several nodes, or in child runs.";
    "value_too_large" 413
        "What a step, a child or a node gives or gets is larger than one event may be. Nothing was changed."
        "Keep the data elsewhere, and pass on where it is.";
    "task_timeout" 0
        "A worker took longer for a task than it may."
        "Raise `timeoutMs` of the node or the kind, or do the work in smaller pieces. Waiting for people does not count.";
    "worker_lost" 0
        "Several workers in a row went silent with the same task, and recorded nothing of it."
        "Look at the log of the last one: the task may kill whoever gets it, by taking all memory for example.";
    "worker_stopped" 0
        "The run ended while a worker had a task of it, and the worker did not tell how it ended."
        "Nothing, if the run was cancelled. Steps that the worker recorded are in the journal.";
    "http_unavailable" 0
        "This server can't send requests at all, because its HTTP client could not start."
        "Install the system's CA certificates on the server and restart it.";
    "provider_unknown" 0
        "A node asks a provider of models that this server does not have, or does not say which of several."
        "Add `[providers.NAME]` to the server's configuration, or name one of those it has in the node's `provider`.";
    "provider_error" 0
        "A provider of models answered with an error that another try would not mend, or none is made for this provider. The message is the provider's own."
        "Read the message. A 401 is a wrong key (`abide secrets set`), a 404 a wrong model, a 400 or 422 a request that the provider does not take.";
    "provider_exhausted" 0
        "A provider of models was away for longer than it is waited for. The message is the last that it said."
        "Start the run anew when the provider is back. Raise `budget` in the provider's schedule to wait longer.";
    "provider_given_up" 0
        "Somebody gave up waiting for a provider of models. The message is the last that the provider said; `details.by` says who."
        "Start the run anew when the provider is back.";
    "provider_broken_off" 0
        "A provider of models broke off in the middle of an answer of which a part had been seen, so it was not asked again by itself."
        "See `abide resume status`. Mark the node `idempotent` in settings.abide if such a step may be done again without asking.";
    "turn_steps_exceeded" 0
        "A model still called tools in the last answer that its node allows."
        "Raise `maxSteps` of the node, or tell the model when to stop.";
    "turn_too_long" 0
        "A conversation with a model has grown larger than a run may hold."
        "Shorten what goes in, have tools say less, or go on in another turn.";
    "invalid_messages" 0
        "The messages that go into a node are none that a model could be told."
        "Give each a `role` (system, user, assistant or tool) and a `content`.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_every_one_says_what_to_do() {
        for (at, entry) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|other| other.code != entry.code), "{} stands twice", entry.code);
            assert!(
                entry.remedy.ends_with('.') && entry.meaning.ends_with('.'),
                "{}: full sentences",
                entry.code
            );
        }
    }
}
