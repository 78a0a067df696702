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
    "unauthenticated" 401
        "The request carries no API key, or one that is malformed, unknown or revoked."
        "Send `Authorization: Bearer <key>`. The CLI takes the key from ABIDE_API_KEY; `abide keys create` makes one.";
    "forbidden" 403
        "The key is valid but may not do this."
        "Use a key that may, or ask the operator for one.";
    "mock_provider_forbidden" 403
        "The run asks for a mock provider in `configurable.mockProvider`, which only tests may use."
        "Leave `configurable.mockProvider` out.";
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
    "method_not_allowed" 405
        "The path exists, but not with this method."
        "Check the method against the guide.";
    "run_not_ended" 409
        "The run has not ended, and only a run that has ended can be erased."
        "Cancel the run or wait for its end, and erase it then.";
    "payload_too_large" 413
        "The request body is larger than the server takes. Nothing was changed."
        "Send less: pass a reference to large data instead of the data.";
    "capability_required" 422
        "The workflow uses a node kind behind a capability that this server does not offer."
        "Remove the node that `details` names, or use a server that advertises the capability.";
    "internal_error" 500
        "Something failed inside the server. A commit that was not acknowledged may or may not have happened."
        "Look for `details.correlationId` in the server's log. Ask for the state before you repeat the request.";
    "unavailable" 503
        "The server is shutting down, or the run changes too quickly, and nothing was taken in."
        "Try again after the seconds in `Retry-After`.";
    "capability_not_provided" 0
        "A node's kind is known to nobody here, so the run failed when it came to that node."
        "Check the spelling of the node's `typeId`.";
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
        "A node's configuration can't be carried out."
        "Read the message, correct the node's `config`, push the workflow and start a new run.";
    "expression_failed" 0
        "An expression could not be evaluated on the values that it met."
        "Read the message: it names the expression and what to change. Test with `has()` for what may be missing.";
    "expression_too_costly" 0
        "An expression took more steps on its data than any expression may."
        "Let it look at less data, or split the work over several nodes.";
    "no_branch" 0
        "No case of a core.branch holds, and the node has no default."
        "Add a `default` to the node, or a case for what came in.";
    "variable_type" 0
        "A variable would get a value of another type than the one it is declared with."
        "Convert the value, or correct the variable's `type`.";
    "variables_too_large" 0
        "The variables or the channels of a run would become larger than a run may carry along."
        "Keep large data elsewhere and a reference to it in the variable.";
    "channel_schema_violation" 0
        "A node wrote a value to a channel that does not fit the channel's schema."
        "Correct the value, or the `schema` of the channel.";
    "channel_write_invalid" 0
        "A node wrote a value to a channel that the channel's reducer can't join to what is there."
        "Write a value of the kind that the reducer takes, or choose another reducer.";
    "channel_too_large" 0
        "A write would make a channel larger than it may be."
        "Write less, limit the channel with `maxSize` or `ttlMs`, or keep large data elsewhere.";
    "recursion_limit_exceeded" 0
        "The run executed as many nodes as it may."
        "Look for a loop without an end, or raise `configurable.recursionLimit`.";
    "run_timeout" 0
        "The run lasted longer than `configurable.runTimeoutMs` or the definition's `settings.timeout` allows."
        "Find out what took so long with the run's events, or allow more time.";
    "loop_limit_exceeded" 0
        "A loop went back as often as it may."
        "Check the condition that ends the loop, or raise `settings.abide.loop.maxIterations` of its node.";
    "dispatch_limit_exceeded" 0
        "A core.dispatch ran as often as its `iterationCap` allows."
        "Check why the supervisor does not terminate, or raise `iterationCap`.";
    "fan_out_unsupported" 0
        "A core.dispatch was given several workers at once, and its policy is to reject that."
        "Let the supervisor choose one worker at a time, or change `fanOutPolicy`.";
    "child_failed" 0
        "The child run that a node waited for failed."
        "Read `details.error`, and look at the run in `details.childRunId`. With `onChildFailure: absorb` the parent goes on.";
    "child_cancelled" 0
        "The child run that a node waited for was cancelled."
        "Find out who cancelled the run in `details.childRunId`. With `onChildFailure: absorb` the parent goes on.";
    "child_refused" 0
        "A child run could not be started, because its workflow refused what the parent gave it."
        "Read the message: it names the input. Correct `inputMapping`, or the child's variables.";
    "child_depth_exceeded" 0
        "A node would start a child too many runs below the first one."
        "Look for a workflow that starts itself without an end.";
    "outcome_unknown" 0
        "The server stopped while a request was under way, so nobody knows whether it was carried out. It was not sent again."
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
    "http_unavailable" 0
        "This server can't send requests at all, because its HTTP client could not start."
        "Install the system's CA certificates on the server and restart it.";
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
