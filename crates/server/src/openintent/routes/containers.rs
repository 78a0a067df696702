//! The operations of OpenIntent that are about several intents, or about what lies below one.

use crate::openintent::{coordinators, graph, intents, plans, portfolios, tasks, workflows};
use crate::operation::Operation;
use crate::scope::Scope;
use crate::shape;

/// Every operation of the families here.
pub(super) fn operations() -> Vec<Operation> {
    let families = [
        of_graphs(),
        of_portfolios(),
        of_members(),
        of_tasks(),
        of_plans(),
        of_coordinators(),
        of_workflows(),
    ];
    families.into_iter().flatten().collect()
}

fn reads(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::RunsRead).answers::<shape::Object>(200, what)
}

fn lists(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::RunsRead).answers::<Vec<shape::Object>>(200, what)
}

fn makes(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::RunsCreate).takes::<shape::Object>().answers::<shape::Object>(200, what)
}

fn works(operation: Operation, what: &'static str) -> Operation {
    operation.scope(Scope::WorkPerform).may_take::<shape::Object>().answers::<shape::Object>(200, what)
}

fn of_graphs() -> Vec<Operation> {
    const CHILDREN: &str = "/api/v1/intents/{intentId}/children";
    const DESCENDANTS: &str = "/api/v1/intents/{intentId}/descendants";
    const ANCESTORS: &str = "/api/v1/intents/{intentId}/ancestors";
    const DEPENDENCIES: &str = "/api/v1/intents/{intentId}/dependencies";
    const DEPENDENCY: &str = "/api/v1/intents/{intentId}/dependencies/{dependencyId}";
    const DEPENDENTS: &str = "/api/v1/intents/{intentId}/dependents";
    const READY: &str = "/api/v1/intents/{intentId}/ready";
    const BLOCKED: &str = "/api/v1/intents/{intentId}/blocked";
    const GRAPH: &str = "/api/v1/intents/{intentId}/graph";
    let found = "The first of them.";
    vec![
        makes(
            Operation::post(CHILDREN, "oiCreateChild", "Makes an intent below it.", intents::create_child),
            "The child.",
        ),
        reads(Operation::get(CHILDREN, "oiListChildren", "Its children.", graph::children), found),
        reads(
            Operation::get(DESCENDANTS, "oiListDescendants", "Everything below it.", graph::descendants),
            found,
        ),
        reads(Operation::get(ANCESTORS, "oiListAncestors", "Those above it.", graph::ancestors), found),
        reads(
            Operation::get(DEPENDENCIES, "oiListDependencies", "Those it waits for.", graph::dependencies),
            found,
        ),
        Operation::post(
            DEPENDENCIES,
            "oiAddDependency",
            "Has it wait for another one.",
            graph::add_dependency,
        )
        .scope(Scope::WorkPerform)
        .takes::<shape::Object>()
        .answers::<shape::Object>(200, "As it stands then."),
        Operation::delete(
            DEPENDENCY,
            "oiRemoveDependency",
            "Has it not wait any more.",
            graph::remove_dependency,
        )
        .scope(Scope::WorkPerform)
        .answers::<shape::Object>(200, "As it stands then."),
        reads(
            Operation::get(DEPENDENTS, "oiListDependents", "Those that wait for it.", graph::dependents),
            found,
        ),
        reads(
            Operation::get(READY, "oiListReady", "Its children that could be worked on.", graph::ready),
            found,
        ),
        reads(
            Operation::get(BLOCKED, "oiListBlocked", "Its children that are kept waiting.", graph::blocked),
            found,
        ),
        reads(
            Operation::get(GRAPH, "oiShowGraph", "It and all that lies below it.", graph::show),
            "Nodes and edges.",
        ),
    ]
}

fn of_portfolios() -> Vec<Operation> {
    const ALL: &str = "/api/v1/portfolios";
    const ONE: &str = "/api/v1/portfolios/{portfolioId}";
    const STATUS: &str = "/api/v1/portfolios/{portfolioId}/status";
    const POLICY: &str = "/api/v1/portfolios/{portfolioId}/governance";
    vec![
        makes(
            Operation::post(ALL, "oiCreatePortfolio", "Makes a portfolio.", portfolios::create),
            "It is on disk.",
        ),
        lists(
            Operation::get(ALL, "oiListPortfolios", "Portfolios, newest first.", portfolios::list),
            "The first of them.",
        ),
        reads(
            Operation::get(ONE, "oiShowPortfolio", "A portfolio as it stands.", portfolios::show),
            "As it stands.",
        ),
        works(
            Operation::patch(
                STATUS,
                "oiSetPortfolioStatus",
                "Sends it somewhere else.",
                portfolios::set_status,
            ),
            "As it stands then.",
        ),
        works(
            Operation::put(POLICY, "oiGovernPortfolio", "Says what holds in it.", portfolios::govern),
            "As it stands then.",
        ),
        works(
            Operation::patch(POLICY, "oiRegovernPortfolio", "Says what holds in it.", portfolios::govern),
            "As it stands then.",
        ),
    ]
}

fn of_members() -> Vec<Operation> {
    const ALL: &str = "/api/v1/portfolios/{portfolioId}/intents";
    const ONE: &str = "/api/v1/portfolios/{portfolioId}/intents/{intentId}";
    const OF_INTENT: &str = "/api/v1/intents/{intentId}/portfolios";
    vec![
        works(
            Operation::post(ALL, "oiAddToPortfolio", "Has an intent belong to it.", portfolios::add),
            "The membership.",
        ),
        reads(
            Operation::get(ALL, "oiListPortfolioIntents", "Its intents.", portfolios::intents),
            "The first of them.",
        ),
        Operation::delete(
            ONE,
            "oiRemoveFromPortfolio",
            "Has an intent not belong to it.",
            portfolios::remove,
        )
        .scope(Scope::WorkPerform)
        .answers::<shape::Object>(200, "It does not."),
        lists(
            Operation::get(
                OF_INTENT,
                "oiListPortfoliosOfIntent",
                "The portfolios it belongs to.",
                portfolios::of_intent,
            ),
            "The first of them.",
        ),
    ]
}

fn of_tasks() -> Vec<Operation> {
    const ONE: &str = "/api/v1/tasks/{taskId}";
    const ACT: &str = "/api/v1/tasks/{taskId}/{act}";
    const OF_INTENT: &str = "/api/v1/intents/{intentId}/tasks";
    vec![
        works(Operation::post("/api/v1/tasks", "oiCreateTask", "Posts a task.", tasks::create), "The task."),
        reads(Operation::get(ONE, "oiShowTask", "A task as it stands.", tasks::show), "The task."),
        lists(
            Operation::get(OF_INTENT, "oiListTasks", "Its tasks, oldest first.", tasks::list),
            "A page of them.",
        ),
        works(
            Operation::patch(ONE, "oiUpdateTask", "Has a task stand somewhere.", tasks::update),
            "The task.",
        ),
        works(
            Operation::post(
                ACT,
                "oiActOnTask",
                "To `claim`, `start`, `progress`, `complete`, `fail`, `retry`, `release`, `block`, `unblock`, `cancel` or \
                 `skip` a task.",
                tasks::perform,
            ),
            "The task.",
        ),
    ]
}

fn of_plans() -> Vec<Operation> {
    const ONE: &str = "/api/v1/plans/{planId}";
    const ACT: &str = "/api/v1/plans/{planId}/{act}";
    const CHECKPOINT: &str = "/api/v1/plans/{planId}/checkpoints/{checkpointId}/{answer}";
    const OF_INTENT: &str = "/api/v1/intents/{intentId}/plans";
    vec![
        works(Operation::post("/api/v1/plans", "oiCreatePlan", "Posts a plan.", plans::create), "The plan."),
        reads(Operation::get(ONE, "oiShowPlan", "A plan as it stands.", plans::show), "The plan."),
        lists(
            Operation::get(OF_INTENT, "oiListPlans", "Its plans, oldest first.", plans::list),
            "All of them.",
        ),
        works(
            Operation::patch(ONE, "oiUpdatePlan", "Has a plan stand somewhere.", plans::update),
            "The plan.",
        ),
        works(
            Operation::post(
                ACT,
                "oiActOnPlan",
                "To `activate`, `pause`, `resume` or `cancel` a plan.",
                plans::perform,
            ),
            "The plan.",
        ),
        Operation::post(
            CHECKPOINT,
            "oiAnswerCheckpoint",
            "To `approve` or `reject` that a plan goes on past a checkpoint.",
            plans::answer_checkpoint,
        )
        .scope(Scope::ApprovalsRespond)
        .answers::<shape::Object>(200, "The plan."),
    ]
}

fn of_coordinators() -> Vec<Operation> {
    const ALL: &str = "/api/v1/coordinators";
    const ONE: &str = "/api/v1/coordinators/{coordinatorId}";
    const ALIVE: &str = "/api/v1/coordinators/{coordinatorId}/heartbeat";
    const ACT: &str = "/api/v1/coordinators/{coordinatorId}/{act}";
    const OF_INTENT: &str = "/api/v1/intents/{intentId}/coordinators";
    const OF_PORTFOLIO: &str = "/api/v1/portfolios/{portfolioId}/coordinators";
    vec![
        works(
            Operation::post(ALL, "oiCoordinate", "Has an agent coordinate.", coordinators::create),
            "The lease.",
        ),
        reads(
            Operation::get(ONE, "oiShowCoordinator", "A coordinator as it stands.", coordinators::show),
            "The lease.",
        ),
        works(
            Operation::patch(
                ONE,
                "oiUpdateCoordinator",
                "Has something else done about suspensions.",
                coordinators::update,
            ),
            "The lease.",
        ),
        Operation::delete(ONE, "oiEndCoordinator", "Has a coordinator be done.", coordinators::end)
            .scope(Scope::WorkPerform)
            .answers::<shape::Object>(200, "The lease."),
        works(
            Operation::post(ALIVE, "oiHeartbeat", "Says that it is there.", coordinators::heartbeat),
            "Until when.",
        ),
        works(
            Operation::post(
                ACT,
                "oiActOnCoordinator",
                "To `pause`, `resume` or `complete`.",
                coordinators::perform,
            ),
            "The lease.",
        ),
        lists(
            Operation::get(
                OF_INTENT,
                "oiListCoordinators",
                "Those who coordinate it.",
                coordinators::of_intent,
            ),
            "All of them.",
        ),
        lists(
            Operation::get(
                OF_PORTFOLIO,
                "oiListPortfolioCoordinators",
                "Those who coordinate it.",
                coordinators::of_portfolio,
            ),
            "All of them.",
        ),
    ]
}

fn of_workflows() -> Vec<Operation> {
    const ALL: &str = "/api/v1/workflows";
    const ONE: &str = "/api/v1/workflows/{workflowId}";
    const TRIGGER: &str = "/api/v1/workflows/{workflowId}/trigger";
    const PROGRESS: &str = "/api/v1/intents/{intentId}/progress";
    const RUN: &str = "/api/v1/workflows/runs/{intentId}/progress";
    vec![
        Operation::post(ALL, "oiRegisterWorkflow", "Registers a workflow.", workflows::register)
            .scope(Scope::WorkflowsWrite)
            .takes::<shape::Object>()
            .takes_content("application/yaml")
            .answers::<shape::Object>(200, "The version that it has now."),
        Operation::get(ALL, "oiListWorkflows", "Every workflow.", workflows::list)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "By id."),
        Operation::get(ONE, "oiShowWorkflow", "A workflow with its definition.", workflows::show)
            .scope(Scope::RunsRead)
            .answers::<shape::Object>(200, "The workflow."),
        makes(
            Operation::post(TRIGGER, "oiTriggerWorkflow", "Starts a run of it.", workflows::trigger),
            "The run.",
        ),
        reads(
            Operation::get(PROGRESS, "oiShowProgress", "How far it has come.", workflows::progress),
            "Its phases.",
        ),
        reads(
            Operation::get(RUN, "oiShowRunProgress", "How far it has come.", workflows::progress),
            "Its phases.",
        ),
    ]
}
