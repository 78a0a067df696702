//! The commands that are about several runs, and about nodes that are done by hand.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::{ClientArgs, parse_pair, parse_span};

#[derive(ClapArgs)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: GraphVerb,
}

#[derive(Subcommand)]
pub(crate) enum GraphVerb {
    /// Show whom a run waits for, who waits for it, how its children stand, and which groups it belongs to
    Show {
        /// The run's id
        run: String,
    },
    /// Print the run of a phase: REVIEW=$(abide graph phase RUN review)
    Phase {
        /// The run of the workflow
        run: String,
        /// What the phase is called
        phase: String,
    },
    /// Have a run wait until another has completed, too: abide graph add RUN --on OTHER
    #[command(
        after_help = "A run that waits starts nothing; what is under way goes on. It is let go on by the completion of \
                      all that it waits for, and by nothing else. What would close a circle is refused."
    )]
    Add {
        /// The run that waits
        run: String,
        /// The run that it waits for
        #[arg(long, value_name = "RUN")]
        on: String,
    },
    /// Have a run not wait for another any more
    Remove {
        /// The run that waits
        run: String,
        /// The run that it waited for
        #[arg(long, value_name = "RUN")]
        on: String,
    },
    /// Let a run begin that was started as a draft
    Activate {
        /// The run's id
        run: String,
    },
    /// Coordinate a run or a group: abide graph coordinate RUN --as lead --policy escalate
    #[command(
        after_help = "Nobody else may then. Say with `abide graph heartbeat` that you are there: after two that are missed \
                      you count as unresponsive, after three somebody else may have it. The policy says what is done when \
                      something suspends: isolate (nothing), block_dependents (phases after it are held back until it has \
                      completed) or escalate (people are asked to look at it)."
    )]
    Coordinate {
        /// The run or the group
        run: String,
        /// Who
        #[arg(long = "as", value_name = "AGENT")]
        agent: String,
        /// isolate, block_dependents or escalate
        #[arg(long, default_value = "isolate")]
        policy: String,
        /// Who is to look after it if you are not heard from
        #[arg(long, value_name = "WHO")]
        supervisor: Option<String>,
        /// How often you say that you are there: 30s, 5m
        #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "60s")]
        heartbeat: i64,
    },
    /// Say that whoever coordinates a run is there
    Heartbeat {
        /// The run or the group
        run: String,
        /// The lease
        coordinator: String,
    },
    /// Coordinate a run no more
    Leave {
        /// The run or the group
        run: String,
        /// The lease
        coordinator: String,
    },
    /// List the runs that wait for others
    Blocked {
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
}

#[derive(ClapArgs)]
pub(crate) struct GroupArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: GroupVerb,
}

#[derive(Subcommand)]
pub(crate) enum GroupVerb {
    /// Make a group: abide group create "Q3 close" --deadline 2026-10-01T00:00:00Z
    #[command(
        after_help = "At the deadline a member that waits for people is abandoned, whatever its fallback says. The deadline \
                      is a moment, or a time from now such as 12h."
    )]
    Create(CreateGroupArgs),
    /// List groups, newest first
    List,
    /// Show a group: how it stands going by its members, and which of them wait for people
    Show {
        /// The group's id
        group: String,
    },
    /// Have runs belong to a group
    Add {
        /// The group's id
        group: String,
        /// The runs' ids
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// What they are to the group
        #[arg(long, value_enum, default_value = "member")]
        role: RoleArg,
        /// The higher, the more they matter
        #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
        priority: i32,
    },
    /// Have a run not belong to a group any more
    Remove {
        /// The group's id
        group: String,
        /// The run's id
        run: String,
    },
    /// Say what holds for the members of a group; what is not named stays as it is
    Set {
        /// The group's id
        group: String,
        #[command(flatten)]
        rules: RulesArgs,
        /// What is not to hold any more. May be repeated
        #[arg(long, value_enum, value_name = "RULE")]
        without: Vec<RuleArg>,
    },
    /// Close a group: it is done with
    Close {
        /// The group's id
        group: String,
    },
    /// Abandon a group; its members go on
    Abandon {
        /// The group's id
        group: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
}

/// A group to be made.
#[derive(ClapArgs)]
pub(crate) struct CreateGroupArgs {
    /// What it is called
    pub(crate) name: String,
    /// What it is for
    #[arg(long)]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
}

/// What holds for the members of a group.
#[derive(ClapArgs, Default)]
pub(crate) struct RulesArgs {
    /// Until when members may wait for people: a moment such as 2026-10-01T00:00:00Z, or 90s, 15m, 12h, 30d from now
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<String>,
    /// The group may be closed although not every member has completed
    #[arg(long)]
    pub(crate) allow_partial: bool,
    /// It completes by itself once this share of its members has, such as 0.8
    #[arg(long, value_name = "SHARE")]
    pub(crate) complete_at: Option<f64>,
    /// What the members' models may cost together, in cents; its journal tells when it is more
    #[arg(long, value_name = "CENTS")]
    pub(crate) budget_cents: Option<u64>,
}

/// What may hold for the members of a group.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RuleArg {
    /// Until when members may wait for people
    Deadline,
    /// The group may be closed although not every member has completed
    AllowPartial,
    /// It completes by itself once a share of its members has
    CompleteAt,
    /// What the members' models may cost together
    BudgetCents,
}

/// What a member is to its group.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArg {
    /// What the group is about
    Primary,
    /// One of several
    Member,
    /// Something that the others need
    Dependency,
}

#[derive(ClapArgs)]
pub(crate) struct HandArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: HandVerb,
}

#[derive(Subcommand)]
pub(crate) enum HandVerb {
    /// Claim a node: abide hand claim RUN --as reviewer
    #[command(
        after_help = "Whoever is refused because a run before this one waits for people is remembered, and has the node as \
                      soon as that run has completed."
    )]
    Claim(WhichArgs),
    /// Give a node back
    Release(WhichArgs),
    /// Ask people, and wait for the answer: abide hand ask RUN --as reviewer --question "Ship it?" --choice yes --choice no
    Ask(HandAskArgs),
    /// Be through with a node: abide hand complete RUN --as reviewer --output approved=true
    Complete {
        #[command(flatten)]
        which: WhichArgs,
        /// What came of it; the value is JSON, or text if it is not JSON. May be repeated
        #[arg(long = "output", value_name = "NAME=VALUE", value_parser = parse_pair)]
        outputs: Vec<(String, String)>,
    },
    /// Give a node up: it fails
    Fail {
        #[command(flatten)]
        which: WhichArgs,
        /// What happened
        #[arg(long)]
        message: String,
    },
}

/// Which node, and whose hands.
#[derive(ClapArgs)]
pub(crate) struct WhichArgs {
    /// The run's id
    pub(crate) run: String,
    /// The node; the run's only one of the kind unless told
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Who has it, or wants it
    #[arg(long = "as", value_name = "AGENT")]
    pub(crate) agent: String,
}

/// What is asked.
#[derive(ClapArgs)]
pub(crate) struct HandAskArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// The question
    #[arg(long)]
    pub(crate) question: String,
    /// One of the answers to choose from. May be repeated; without any, the answer is text
    #[arg(long = "choice", value_name = "TEXT")]
    pub(crate) choices: Vec<String>,
    /// How many times people are told at the most
    #[arg(long, value_name = "COUNT")]
    pub(crate) attempts: Option<u32>,
    /// How long until they are told again, and until it is given up after the last time: 90s, 15m, 12h
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) interval: Option<i64>,
    /// Another channel from some attempt on: 2=email. May be repeated
    #[arg(long = "rung", value_name = "ATTEMPT=CHANNEL", value_parser = parse_pair)]
    pub(crate) rungs: Vec<(String, String)>,
    /// Who may answer. May be repeated; those whom the node names unless told, or else everybody
    #[arg(long = "respondent", value_name = "WHO")]
    pub(crate) respondents: Vec<String>,
}
