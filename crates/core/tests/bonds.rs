//! Runs that wait for runs: what blocks them, what lets them go on, and that it does not matter who is heard when. Groups
//! and workflows that look on, and what becomes of nothing but the run that waits for people itself.

#[path = "bonds/blocking.rs"]
mod blocking;
#[path = "bonds/coordinators.rs"]
mod coordinators;
#[path = "bonds/deadlines.rs"]
mod deadlines;
#[path = "bonds/gates.rs"]
mod gates;
#[path = "bonds/groups.rs"]
mod groups;
#[path = "bonds/hands.rs"]
mod hands;
#[path = "bonds/phases.rs"]
mod phases;
#[path = "bonds/random.rs"]
mod random;
#[path = "domain/seeded.rs"]
mod seeded;
#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[path = "bonds/watching.rs"]
mod watching;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;
#[expect(dead_code, reason = "hands.rs and others tell the rest of the vocabulary")]
#[path = "domain/world.rs"]
mod world;
