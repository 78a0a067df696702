//! Every bound of the core, each with its reason.

use crate::Millis;

/// Nodes that one decision may start before it yields to other work.
///
/// A stretch of pure nodes costs one commit; without a bound a graph of a million no-ops would hold the
/// writer for seconds. After this many the run commits and goes on in a command of its own.
pub const STRETCH_NODES_MAX: usize = 512;

/// Bytes of payload after which a stretch yields as well: a commit has to fit into memory and into a transaction.
pub const STRETCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Events since the last snapshot that make a parking run write one.
///
/// Folding a handful of events is as quick as reading a snapshot, and a short run that parks would
/// otherwise store its inputs twice.
pub const SNAPSHOT_PARK_EVENTS_MIN: u64 = 16;

/// Events since the last snapshot after which one is written in any case, so that waking or evicting a
/// busy run folds a bounded tail.
pub const SNAPSHOT_EVENTS_MAX: u64 = 256;

/// The longest `core.delay`: ten years. A longer one is a unit mistake (seconds given as milliseconds).
pub const DELAY_MS_MAX: i64 = 10 * 366 * 24 * 3_600_000;

/// Bytes of one node's inputs together. They may repeat one large value, so a bound on requests is not enough.
pub const NODE_INPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Inputs, and outputs, that a node which is done by hand may name. Whoever has it reads them all.
pub const HAND_PORTS_MAX: usize = 10_000;

/// Runs that one run may wait for. Each is in every snapshot of the run.
pub const DEPENDENCIES_MAX: usize = 1_000;

/// Names that the mistyped ones of a definition's phases are compared with. A comparison takes some microseconds, and
/// every mistyped name is compared with every phase: beyond this they are told without a hint.
pub const NAMES_COMPARED_MAX: usize = 200_000;

/// Who is remembered as wanting a node that can't be had yet. Each is in every snapshot of the run.
pub const CLAIMS_WAITING_MAX: usize = 1_000;

/// Children that somebody may have a run start which have not completed. They are rows; more are a mistake in a loop.
pub const CHILDREN_ADDED_MAX: u32 = 200_000;

/// Runs that are named in the event that blocks another one: who else it is shows in the run itself.
pub const BLOCKED_BY_MAX: usize = 20;

/// Leases of coordinators that a run keeps, ended ones included: enough to see who was there before.
pub const COORDINATORS_KEPT_MAX: usize = 100;

/// Suspensions that a coordinated group keeps apart. They lie in the group's snapshot.
pub const COORDINATED_SUSPENDED_MAX: usize = 1_000;

/// How often a coordinator says that it is there, if it does not say how often.
pub const HEARTBEAT_INTERVAL_MS_DEFAULT: i64 = 60_000;

/// Each heartbeat is an event, and more than one a second would be nothing but that.
pub const HEARTBEAT_INTERVAL_MS_MIN: i64 = 1_000;

/// A coordinator that is missed after more than a day is missed by nobody.
pub const HEARTBEAT_INTERVAL_MS_MAX: i64 = 86_400_000;

/// Characters of a workflow's id.
pub const WORKFLOW_ID_CHARS_MAX: usize = 128;

/// Members of one group. They are rows, and their counts fit anywhere; more than this is a mistake in a loop.
pub const MEMBERS_MAX: u64 = 100_000;

/// Characters of the name of a group: it stands in lists.
pub const GROUP_NAME_CHARS_MAX: usize = 256;

/// Nodes in one definition.
pub const NODES_MAX: usize = 20_000;

/// Edges in one definition.
pub const EDGES_MAX: usize = 100_000;

/// Bytes of one workflow definition.
pub const DEFINITION_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Characters of a node id: it stands in a column of every event of its node.
pub const NODE_ID_CHARS_MAX: usize = 256;

/// Characters of the type of an artifact: it stands in an event of every execution of its node.
pub const ARTIFACT_TYPE_CHARS_MAX: usize = 256;

/// Characters of a reason given with a command; it is stored in the journal for good.
pub const REASON_CHARS_MAX: usize = 4_096;

/// Interrupts of one run that wait for an answer at once. Each is in every snapshot of the run.
pub const INTERRUPTS_OPEN_MAX: usize = 1_000;

/// Conversations that one run may open. Each is in every snapshot of the run.
pub const CONVERSATIONS_MAX: usize = 1_000;

/// Turns that one gate may take in a conversation: its body is executed anew for each.
pub const CONVERSATION_TURNS_MAX: i64 = 200;

/// Bytes of a run's open questions and of the answers that may be asked for again: they are in every snapshot.
pub const INTERRUPTS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a token may be good for: nobody wants one that outlives those who know what it was for.
pub const TOKEN_MS_MAX: i64 = 366 * 24 * 3_600_000;

/// Bytes of what an annotation says should have come out instead.
pub const CORRECTION_BYTES_MAX: usize = 16 * 1024;

/// Annotations of one run. Lists look through a run's notes, and feedback beyond this is not read by people.
pub const ANNOTATIONS_MAX: usize = 1_000;

/// Tags of one run, and characters of one tag (OpenWOP's own limits).
pub const TAGS_MAX: usize = 100;
/// Characters of one tag.
pub const TAG_CHARS_MAX: usize = 256;

/// Characters in the scope of a run: it is an id of the caller's, and part of a key.
pub const SCOPE_CHARS_MAX: usize = 128;

/// Problems that are told of one definition. Whoever has more mends these first.
pub const PROBLEMS_MAX: usize = 100;

/// Edges followed while checking that inputs come from nodes before: a hostile graph would make it quadratic.
pub const ANCESTOR_STEPS_MAX: usize = 20_000_000;

/// Bytes of a compiled regular expression: counted repetitions multiply.
pub const REGEX_BYTES_MAX: usize = 256 * 1024;

/// Node executions of one run, unless it asks for fewer. A run that does more is not going anywhere.
pub const NODE_EXECUTIONS_MAX: u64 = 1_000_000;

/// The longest a run may ask to last: ten years, as a delay.
pub const RUN_TIMEOUT_MS_MAX: i64 = DELAY_MS_MAX;

/// Times that one loop may go back, whatever a definition says.
pub const LOOPBACKS_MAX: u32 = 1_000_000;

/// Runs above a run. A workflow that calls itself without end stops here.
pub const CHILD_DEPTH_MAX: u32 = 2_000;

/// Bytes of a run's `configurable`: it is kept in the first event.
pub const CONFIGURABLE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of all variables of a run, and of all its channels: they are written with each snapshot.
pub const VARIABLES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long one HTTP attempt may take, at most and unless told.
pub const HTTP_TIMEOUT_MS_MAX: i64 = 10 * 60_000;
/// How long one HTTP attempt may take unless told.
pub const HTTP_TIMEOUT_MS_DEFAULT: i64 = 30_000;

/// Bytes of an HTTP response: it becomes a node's outputs, which stand in the journal.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Levels of nesting in a YAML document. The JSON reader stops at 128; a definition needs about 10.
pub const YAML_DEPTH_MAX: usize = 64;

/// The most retries of one node. With the longest delay these last for two years.
pub const RETRIES_MAX: u32 = 100;

/// The longest wait before a retry: seven days. A longer one is a unit mistake.
pub const RETRY_DELAY_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// Bytes of one JSON Schema. It is compiled whenever its definition is loaded.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Values in one JSON Schema after every `$ref` is written out. A chain of definitions that each name the
/// next one twice is small as text and doubles with every link.
pub const SCHEMA_SIZE_MAX: usize = 10_000;

/// Levels of schemas inside schemas, `$ref`s followed: compiling and checking recurse once per level.
pub const SCHEMA_DEPTH_MAX: usize = 64;

/// What one check may cost: bytes of the value times the size of the schema, the worst that can happen.
///
/// A value of 4 MiB may be held against a schema of size 250, a value of 100 KiB against any schema.
pub const SCHEMA_CHECK_COST_MAX: usize = 1024 * 1024 * 1024;

/// The cost up to which a failed check says everything that is wrong.
///
/// The validator keeps every error and copies the value into those of each alternative; at this cost that
/// stays below a hundred megabytes. Above it only the first error is named, or that there is one.
pub const SCHEMA_REPORT_COST_MAX: usize = 1024 * 1024;

/// Errors that one failed check returns. Nobody reads more of them before mending the first.
pub const SCHEMA_ERRORS_MAX: usize = 20;

/// Bytes of one compiled regular expression, and of its cache.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 512 * 1024;

/// Bytes of one channel's state. It is read and written as a whole with every write.
pub const CHANNEL_BYTES_MAX: usize = 1024 * 1024;

/// The longest time that an entry of a channel may live: a year. A longer one is a unit mistake.
pub const CHANNEL_TTL_MS_MAX: i64 = 31_536_000_000;
/// Bytes of one expression. Longer logic belongs into a node of its own, where it can be tested.
pub const EXPRESSION_BYTES_MAX: usize = 4_096;

/// Terms of one expression after its macros are expanded.
///
/// Together with the bytes this bounds what a compiled expression keeps in memory.
pub const EXPRESSION_NODES_MAX: usize = 1_000;

/// Brackets and conditionals that may stand inside one another in an expression: the parser recurses over them.
pub const EXPRESSION_NESTING_MAX: usize = 32;

/// Steps from the top of an expression to its deepest term: evaluation recurses over them.
pub const EXPRESSION_DEPTH_MAX: usize = 100;

/// Macros (`all`, `exists`, `exists_one`, `map`, `filter`) that may loop inside one another. Each level
/// multiplies the work, so a fifth can only run out of fuel.
pub const EXPRESSION_LOOPS_MAX: usize = 4;

/// Units of fuel for one evaluation, and for all expressions of one template together.
///
/// A unit is about one step of the evaluator. The costliest expressions known burn this in well under 50 ms
/// in a release build, and what they build until then stays below a few tens of megabytes.
pub const EXPRESSION_FUEL_MAX: u64 = 1_500_000;

/// Bytes of one regular expression: parsing one takes time in proportion to its length, and Unicode classes
/// make the factor large.
pub const PATTERN_BYTES_MAX: usize = 256;

/// Bytes of one compiled regular expression. Matching takes time in proportion to it for every byte of text.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 256 * 1024;

/// Levels of lists and maps in the result of an expression. JSON is read back to 127 levels, and the result
/// will stand inside of other values.
pub const EXPRESSION_RESULT_DEPTH_MAX: usize = 100;

/// Bytes of the text of one template, and of one JSON template with all its strings.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;

/// Expressions in one template: each is parsed when the definition is loaded.
pub const TEMPLATE_EXPRESSIONS_MAX: usize = 256;

/// Characters of the name of a secret.
pub const SECRET_NAME_CHARS_MAX: usize = 64;

/// Characters a secret needs to be searched for in answers. Shorter ones stand in any text by chance.
pub const SECRET_CHARS_MIN: usize = 4;

/// Characters of a child's failure that its parents repeat.
pub const CAUSE_CHARS_MAX: usize = 1_000;

/// What all expressions of one node may cost together: eight of the most costly ones. They are evaluated within one
/// decision, while others wait for the run.
pub const NODE_FUEL_MAX: u64 = 8 * EXPRESSION_FUEL_MAX;

/// How long a delivery waits after each attempt that failed; after the last it is given up. Together they are less than
/// a day: a receiver that is mended within a working day misses nothing, and what is older is better asked for.
pub const DELIVERY_DELAYS_MS: [i64; 8] =
    [5_000, 30_000, 120_000, 600_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000];

/// Failures in a row after which a webhook is left alone for a while: fewer may be chance.
pub const WEBHOOK_BREAKER_FAILURES: u32 = 4;

/// How long a webhook is left alone at first. It doubles each time; a receiver that only restarted is not punished for
/// an hour.
pub const WEBHOOK_OPEN_MS_MIN: i64 = 60_000;

/// How long a webhook is left alone at most before one delivery tries again.
pub const WEBHOOK_OPEN_MS_MAX: i64 = 3_600_000;

/// Failures in a row after which a webhook is tried no more. With the pauses between them they take days.
pub const WEBHOOK_FAILURES_MAX: u32 = 100;

/// How long a webhook may fail, however seldom it is tried, before it is tried no more: a week.
pub const WEBHOOK_FAILING_MS_MAX: i64 = 604_800_000;

/// Events of a rate in a second or a minute. Tokens are counted in microseconds, so there is one for each.
pub const RATE_COUNT_MAX: u32 = 1_000_000;

/// Events of a rate that may come at once. More is no limit.
pub const RATE_BURST_MAX: u32 = 1_000_000;

/// Bytes of what a node asks for: it stands in an event, in the inbox and in what everybody who may answer reads.
pub const ASK_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one answer: it becomes a node's outputs, as the response of another system.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Levels of lists and objects in a question or an answer. JSON is read back to 127 levels, and both will stand inside
/// of other values.
pub const ASK_DEPTH_MAX: usize = 100;

/// Characters of the key of an interrupt (OpenWOP's own limit).
pub const INTERRUPT_KEY_CHARS_MAX: usize = 256;

/// The longest that an interrupt may wait before it is given up: ten years, as a delay.
pub const INTERRUPT_TIMEOUT_MS_MAX: i64 = DELAY_MS_MAX;

/// Characters of an id, a type or a name in a question: they are columns of the inbox, or keys of an answer.
pub const ASK_NAME_CHARS_MAX: usize = 256;

/// Characters of a title. The inbox shows the first of them; more belongs into the description.
pub const ASK_TITLE_CHARS_MAX: usize = 1_000;

/// Characters of what is to be read before answering: a description, a question, a prompt.
pub const ASK_TEXT_CHARS_MAX: usize = 64 * 1024;

/// Characters of the line that the inbox shows: more does not fit onto a screen.
pub const INBOX_TITLE_CHARS_MAX: usize = 200;

/// Questions of one clarification. Nobody fills in a longer form at once.
pub const QUESTIONS_MAX: usize = 100;

/// Values in the schemas of all questions of one clarification, with their `$ref`s written out. They are compiled
/// together whenever one is asked or answered.
pub const QUESTION_SCHEMAS_SIZE_MAX: usize = SCHEMA_SIZE_MAX;

/// Bytes of what an external event is found by: it is held against every event of its type.
pub const CORRELATION_BYTES_MAX: usize = 16 * 1024;

/// Principals, groups or roles in one list of a gate. More belong into a group.
pub const APPROVERS_MAX: usize = 1_000;

/// Characters of a principal.
pub const PRINCIPAL_CHARS_MAX: usize = 256;

/// Approvals that one gate may ask for. A larger vote is not a gate.
pub const APPROVALS_MAX: i64 = 1_000;

/// Characters of what somebody says about a decision. People paste whole reviews.
pub const FEEDBACK_CHARS_MAX: usize = 64 * 1024;

/// Tags, or ids of items, in the feedback of one refinement.
pub const FEEDBACK_ITEMS_MAX: usize = 1_000;

/// Groups that have to be among those who accept. Finding who speaks for which is quick for so few.
pub const ACROSS_GROUPS_MAX: usize = 16;

/// Votes that are cast about one question, those included that others took the place of: each is an event.
pub const VOTES_MAX: u32 = 4_000;

/// Bytes of the votes about one question: they are kept in the run, and become a node's outputs.
pub const VOTES_BYTES_MAX: usize = 512 * 1024;

/// Questions back about one question: each is an event, and repeats those before it in a variable.
pub const ASKS_MAX: usize = 100;

/// Bytes of a node's questions back with their answers: every one of them writes all of them.
pub const ASKS_BYTES_MAX: usize = 256 * 1024;

/// Bytes of the answer to a question back.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;

/// Tasks that are posted to one run. Each is in every snapshot of it, and they all end with it in one commit.
pub const TASKS_POSTED_MAX: usize = 10_000;

/// Children of a run for which a task may stand. Each is in every snapshot of it, if only with a word or two; of more than
/// these those are forgotten first that have ended and that no task stands for.
pub const CHILDREN_KNOWN_MAX: usize = 10_000;

/// Bytes that are kept of what children have produced until a task has it: they are in every snapshot. What is let go stands
/// in the children.
pub const CHILDREN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Plans that are posted to one run: they are looked at behind every command.
pub const PLANS_POSTED_MAX: usize = 100;

/// Bytes of all tasks and plans of a run: they are in every snapshot.
pub const PLANNING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Characters of the name of a task or a plan: it is a line in a list.
pub const TASK_NAME_CHARS_MAX: usize = 256;

/// Bytes of what goes into a task, of what comes of it and of what is said about it. Larger values belong elsewhere.
pub const TASK_JSON_BYTES_MAX: usize = 256 * 1024;

/// Tasks that one task depends on. Whoever has more has one task too few between them.
pub const TASK_DEPENDENCIES_MAX: usize = 1_000;

/// Attempts that a task has unless it says otherwise (OpenIntent's own default).
pub const TASK_ATTEMPTS_USUAL: u32 = 3;

/// Attempts that a task may have: with an agent behind each, more are a loop that nobody looks at.
pub const TASK_ATTEMPTS_MAX: u32 = 100;

/// Checkpoints of one plan. Nobody answers more questions about one thing.
pub const CHECKPOINTS_MAX: usize = 100;

/// Conditions of one plan: all of them may be evaluated within one decision.
pub const PLAN_CONDITIONS_MAX: usize = 100;

/// Attempts to reach people about one question: more would be noise, and each is an event.
pub const LADDER_ATTEMPTS_MAX: u32 = 100;

/// Seconds of an attempt: as long as a question may be asked at all.
pub const LADDER_SECONDS_MAX: u32 = 31_536_000;

/// Characters of a channel's name.
pub const CHANNEL_HINT_CHARS_MAX: usize = 64;

/// Characters of an agent's name.
pub const AGENT_NAME_CHARS_MAX: usize = 256;

/// Those who may answer a question, by name, group or role.
pub const RESPONDENTS_MAX: usize = 100;

/// Choices of a question: more than anybody reads.
pub const CHOICES_MAX: usize = 100;

/// Characters of a code that a worker gives a failure.
pub const CODE_CHARS_MAX: usize = 64;

/// Characters of a step's key. Keys are kept in memory for as long as the node is under way.
pub const STEP_KEY_CHARS_MAX: usize = 256;

/// Steps, sleeps, children and versions of one execution. Each key is in every snapshot of its run.
pub const STEPS_MAX: usize = 10_000;

/// Bytes of what one step gives back. It is one event, and events are read whole.
pub const STEP_BYTES_MAX: usize = 1024 * 1024;

/// Things that a parked node may wait for: as many as a run may have open questions, and some sleeps and children.
pub const WAITS_MAX: usize = 1_000;

/// Workers in a row that may go silent with a task before it counts as failed. A task that kills whoever gets it would
/// otherwise go round for ever.
pub const LOSSES_MAX: u32 = 3;

/// Lines of a worker's log in one note.
pub const LOG_LINES_MAX: usize = 100;

/// How often in a row a worker's code may not fit a task before it counts as interrupted: a quarter of an hour, which
/// is longer than old and new workers stand side by side while they are replaced.
pub const UNFIT_ROUNDS_MAX: u32 = 8;

/// Times that a run is resumed by itself at most. Who needs more has something to mend.
pub const RESUME_ATTEMPTS_MAX: u32 = 1_000;

/// The longest cool-down between two of them: a week.
pub const RESUME_COOLDOWN_SECONDS_MAX: u32 = 7 * 24 * 3600;

/// Bytes of one line of a worker's log.
pub const LOG_LINE_BYTES_MAX: usize = 8 * 1024;

/// How long a task waits before it is offered again after a worker's code did not fit it; doubled each time.
pub const UNFIT_DELAY_MS: i64 = 5_000;

/// The longest such wait. Whoever puts the code right should not have to wait much longer than they took.
pub const UNFIT_DELAY_MS_MAX: i64 = 5 * 60_000;

/// Days that a definition or an operator may ask for runs to be kept: a hundred years. Whoever wants more wants for ever.
pub const RETENTION_DAYS_MAX: u32 = 36_500;

/// Tokens that a node may ask for at most: more than any model gives.
pub const TOKENS_MAX: i64 = 10_000_000;

/// Calls of its model that a turn makes unless it says otherwise.
pub const TURN_STEPS_USUAL: u32 = 16;

/// Calls of its model that a turn may make at most: one that needs more goes round in circles.
pub const TURN_STEPS_MAX: u32 = 1_000;

/// Tools of one turn. Providers take some hundred at most.
pub const TOOLS_MAX: usize = 128;

/// Levels of lists and objects in what is said of a tool: a turn that is a tool of a turn takes three of them.
pub const TOOL_DEPTH_MAX: usize = 64;

/// Tools that a model may call in one answer. Each becomes a run.
pub const TOOL_CALLS_MAX: usize = 64;

/// Bytes of the id of a tool's call. Usual ones have some thirty; gateways put signatures of some thousand into theirs.
pub const TOOL_CALL_ID_BYTES_MAX: usize = 16 * 1024;

/// Bytes of what a tool says to a model. More than this fills its context and helps nobody.
pub const TOOL_ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Bytes of one conversation: it is in every snapshot of the run, and is sent whole with each call.
pub const TURN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of a provider's words that are kept.
pub const PROVIDER_MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// How long a provider may ask to be left alone, unless the operator says otherwise: an hour.
pub const RETRY_AFTER_CAP_MS_USUAL: i64 = 3_600_000;

/// How long a turn is postponed because its provider is known to be away. After that the last error is final.
pub const POSTPONED_MS_MAX: i64 = 24 * 3_600_000;

/// Events that a fork may begin with: they are worked out and written at once.
pub const FORK_EVENTS_MAX: usize = 10_000;

/// Bytes of the payloads that a fork may begin with.
pub const FORK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Differences that a replay records; the rest are only counted.
pub const DIVERGENCES_MAX: u64 = 100;

/// Bytes of an intent's state: it lies in every snapshot, and is read and written with every patch.
pub const STATE_BYTES_MAX: usize = 1024 * 1024;

/// Levels of nesting of an intent's state, so that nothing that reads it runs out of stack.
pub const STATE_DEPTH_MAX: usize = 64;

/// Bytes of what somebody says beside their answer: it is kept in the state of the intent.
pub const REMARKS_BYTES_MAX: usize = 16 * 1024;

/// Bytes of an answer that are taken however large the state of the intent is: it may grow by so much beyond what its agent
/// may make of it, so that whoever is asked is never kept from answering.
pub const ANSWER_BYTES_SURE: usize = 16 * 1024;

/// Changes in one patch of a state: they are decided under the run's lock.
pub const PATCHES_MAX: usize = 1_000;

/// Agents that are assigned to an intent: they lie in every snapshot.
pub const AGENTS_ASSIGNED_MAX: usize = 1_000;

/// Leases of one intent at a time.
pub const LEASES_HELD_MAX: usize = 200;

/// Leases of one intent that are remembered, those included that are over.
pub const LEASES_KEPT_MAX: usize = 400;

/// How long a lease lasts at most without being renewed: a week. An agent that is gone gives nothing back.
pub const LEASE_SECONDS_MAX: u32 = 7 * 24 * 3_600;

/// Entries of those who may see an intent: they are looked through with every request.
pub const ACCESS_ENTRIES_MAX: usize = 1_000;

/// Approvals and escalations of one intent: they lie in every snapshot.
pub const REQUESTS_MAX: usize = 1_000;

/// How long the record of a suspension may come after the word that the intent is suspended.
pub const RECORD_GRACE_MS: Millis = 60_000;
