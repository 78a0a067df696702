//! What follows along the edges of a graph when a node is settled.
//!
//! An edge is followed once, with an outcome. A node runs when its trigger rules say so, and is skipped when they
//! never will. An edge that leaves a loop waits until the loop is over; one that leads back to its entry starts it
//! over. A failed node is taken over from by a node that runs in spite of the failure; if none can, the run fails.

use std::collections::HashSet;

use crate::event::LoopRestarted;
use crate::fold::Folding;
use crate::graph::{EdgeIx, GraphEdge, LoopIx};
use crate::node::NodePhase;
use crate::rule::{Outcome, Tally, Verdict};
use crate::run::{Ending, LoopState};
use crate::{NodeIx, Run};

/// What became of an edge under a rule that takes failures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Its target runs, or ran.
    Taken,
    /// Its target may yet run.
    Open,
    /// Its target will not run because of it.
    Closed,
}

impl Run {
    pub(crate) fn follow_success(&mut self, ix: NodeIx, untaken: &[String], folding: &mut Folding<'_>) {
        self.follow_all(ix, Outcome::Success, untaken, folding);
        self.leave_loops(ix, folding);
    }

    pub(crate) fn follow_skip(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        self.follow_all(ix, Outcome::Skipped, &[], folding);
        self.leave_loops(ix, folding);
    }

    /// Follows the edges of a failed node, and fails the run if nothing can take over.
    pub(crate) fn follow_failure(&mut self, ix: NodeIx, untaken: &[String], folding: &mut Folding<'_>) {
        self.follow_all(ix, Outcome::Failed, untaken, folding);
        let routes = self.routes_from(ix, untaken);
        if !routes.contains(&Route::Taken) {
            match routes.iter().filter(|route| **route == Route::Open).count() {
                0 => self.fail_with(ix, folding),
                open => drop(self.state.unrouted.insert(ix, open as u32)),
            }
        }
        self.leave_loops(ix, folding);
    }

    fn follow_all(&mut self, ix: NodeIx, outcome: Outcome, untaken: &[String], folding: &mut Folding<'_>) {
        let graph = self.graph.clone();
        let untaken: HashSet<&str> = untaken.iter().map(String::as_str).collect();
        for &edge in &graph.at(ix).out {
            let taken = !untaken.contains(&*graph.edge(edge).id);
            let outcome = if taken { outcome } else { Outcome::Skipped };
            if graph.edge(edge).leaves.is_some() {
                self.state.deferred.insert(edge, outcome);
            } else {
                self.arrive(edge, outcome, folding);
            }
        }
    }

    /// What became of the edges that might lead on from a failed node. Judged once all of them are followed: two may
    /// lead to the same target, and the second one decide it.
    fn routes_from(&self, ix: NodeIx, untaken: &[String]) -> Vec<Route> {
        let untaken: HashSet<&str> = untaken.iter().map(String::as_str).collect();
        let edges = self.graph.at(ix).out.iter().map(|&edge| (edge, self.graph.edge(edge)));
        let taking = edges.filter(|(_, way)| self.takes_over(way) && !untaken.contains(&*way.id));
        taking.map(|(edge, way)| self.route(edge, way)).collect()
    }

    /// Whether the definition says what follows on this failure of a node: then it is no interruption of the run.
    ///
    /// Nothing has arrived yet, so a target that waits is asked what it would say once all edges have.
    pub(crate) fn has_route(&self, ix: NodeIx, untaken: &[String]) -> bool {
        let untaken: HashSet<&str> = untaken.iter().map(String::as_str).collect();
        let edges = self.graph.at(ix).out.iter().map(|&edge| (edge, self.graph.edge(edge)));
        let mut taking = edges.filter(|(_, way)| self.takes_over(way) && !untaken.contains(&*way.id));
        taking.any(|(edge, way)| match self.route(edge, way) {
            Route::Open if way.leaves.is_none() => {
                self.verdict_after(ix, way.target, &untaken) != Verdict::Skip
            }
            route => route != Route::Closed,
        })
    }

    /// What a node that waits would say if a node before it failed.
    fn verdict_after(&self, failed: NodeIx, target: NodeIx, untaken: &HashSet<&str>) -> Verdict {
        let groups = &self.graph.at(target).groups;
        let mut tally = self.node(target).tally.clone();
        tally.resize(groups.len(), Tally::default());
        let edges = self.graph.at(failed).out.iter().map(|&edge| self.graph.edge(edge));
        for way in edges.filter(|way| way.target == target && way.leaves.is_none() && way.back.is_none()) {
            let outcome = if untaken.contains(&*way.id) { Outcome::Skipped } else { Outcome::Failed };
            tally[way.group as usize].add(outcome);
        }
        combine(groups.iter().zip(&tally).map(|(&(rule, total), &tally)| rule.verdict(total, tally)))
    }

    /// Whether the target of an edge may take over from its source. A disabled node takes nothing over.
    fn takes_over(&self, way: &GraphEdge) -> bool {
        way.rule.takes_failures() && !self.graph.at(way.target).disabled
    }

    fn route(&self, edge: EdgeIx, way: &GraphEdge) -> Route {
        let target = &self.state.nodes[way.target as usize];
        match target.phase {
            _ if self.state.deferred.contains_key(&edge) => Route::Open,
            _ if way.back.is_some() && leads_back(way, Outcome::Failed) => Route::Taken,
            _ if way.back.is_some() => Route::Closed,
            NodePhase::Skipped => Route::Closed,
            NodePhase::Pending if target.doomed => Route::Closed,
            NodePhase::Pending if !target.queued => Route::Open,
            _ => Route::Taken,
        }
    }

    /// An edge reaches its target, or starts its loop over.
    fn arrive(&mut self, edge: EdgeIx, outcome: Outcome, folding: &mut Folding<'_>) -> Route {
        let graph = self.graph.clone();
        if let Some(back) = graph.edge(edge).back {
            let taken = leads_back(graph.edge(edge), outcome);
            self.state.loops[back as usize].again |= taken;
            return if taken { Route::Taken } else { Route::Closed };
        }
        let (way, target) = (graph.edge(edge), graph.edge(edge).target);
        let node = &mut self.state.nodes[target as usize];
        let groups = &graph.at(target).groups;
        node.tally.resize(groups.len(), Tally::default());
        node.tally[way.group as usize].add(outcome);
        if node.phase != NodePhase::Pending || node.queued {
            return self.route(edge, way);
        }
        let verdicts =
            groups.iter().zip(&node.tally).map(|(&(rule, total), &tally)| rule.verdict(total, tally));
        match combine(verdicts) {
            Verdict::Run => {
                self.enqueue(target, folding.sequence);
                for failed in self.state.routes.remove(&target).unwrap_or_default() {
                    self.state.unrouted.remove(&failed);
                }
                Route::Taken
            }
            Verdict::Skip => {
                (node.queued, node.doomed) = (true, true);
                self.state.doomed.push_back((target, folding.sequence));
                for failed in self.state.routes.remove(&target).unwrap_or_default() {
                    self.close_route(failed, folding);
                }
                Route::Closed
            }
            Verdict::Wait => {
                if outcome == Outcome::Failed && self.takes_over(way) {
                    self.state.routes.entry(target).or_default().push(way.source);
                }
                Route::Open
            }
        }
    }

    /// One node fewer that might have taken over from `failed`.
    fn close_route(&mut self, failed: NodeIx, folding: &mut Folding<'_>) {
        if let Some(open) = self.state.unrouted.get_mut(&failed) {
            *open -= 1;
            if *open == 0 {
                self.state.unrouted.remove(&failed);
                self.fail_with(failed, folding);
            }
        }
    }

    fn fail_with(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let node = Some(self.graph.at(ix).id.to_string());
        let error = self.node(ix).error.clone();
        let error = error.unwrap_or_else(|| crate::Failure::new("node_execution_failed", "a node failed"));
        self.fail_run(Ending::Failed { node, error }, folding);
    }

    /// Puts a node in line.
    pub(crate) fn enqueue(&mut self, ix: NodeIx, sequence: u64) {
        self.state.nodes[ix as usize].queued = true;
        self.state.ready.push_back((ix, sequence));
    }

    /// A node is settled, and with it perhaps the loops around it.
    fn leave_loops(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let graph = self.graph.clone();
        // A loop that starts over keeps the ones around it open, although all their nodes are settled for a moment.
        let mut held = false;
        for &around in &graph.at(ix).loops {
            let within =
                |(next, _): &(LoopIx, u64)| graph.at(graph.loop_at(*next).head).loops.contains(&around);
            held |= self.state.restarts.iter().any(within);
            let state = &mut self.state.loops[around as usize];
            state.unsettled -= 1;
            if state.unsettled > 0 || held {
                continue;
            }
            if state.again {
                held = true;
                self.state.restarts.push_back((around, folding.sequence));
            } else {
                self.end_loop(around, folding);
            }
        }
    }

    /// The loop is over: the edges that leave it are followed now.
    fn end_loop(&mut self, over: LoopIx, folding: &mut Folding<'_>) {
        let graph = self.graph.clone();
        let leaving: Vec<(EdgeIx, Outcome)> =
            self.state.deferred.extract_if(.., |edge, _| graph.edge(*edge).leaves == Some(over)).collect();
        for (edge, outcome) in leaving {
            let (route, way) = (self.arrive(edge, outcome, folding), graph.edge(edge));
            if outcome == Outcome::Failed && self.takes_over(way) {
                match route {
                    Route::Taken => drop(self.state.unrouted.remove(&way.source)),
                    Route::Closed => self.close_route(way.source, folding),
                    Route::Open => {}
                }
            }
        }
    }

    /// Everything in the loop is as it was before it, but for what its nodes produced.
    pub(crate) fn restart_loop(
        &mut self,
        restarted: &LoopRestarted,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let graph = self.graph.clone();
        let next = self.state.restarts.pop_front().map(|(found, _)| found);
        let found = next.filter(|&found| *graph.at(graph.loop_at(found).head).id == *restarted.node);
        let found = found.ok_or("no such loop was to start over")?;
        let again = graph.loop_at(found);
        self.disarm(&crate::TimerId::Stretch, folding);
        let within: HashSet<NodeIx> = again.members.iter().copied().collect();
        for &member in &again.members {
            let node = &mut self.state.nodes[member as usize];
            (node.phase, node.queued, node.doomed) = (NodePhase::Pending, false, false);
            // The attempts were those of the execution before: the next one is no retry of it.
            (node.attempt, node.cut_off) = (0, 0);
            if member != again.head {
                node.tally = Vec::new();
            }
        }
        let state = &mut self.state;
        state.unsettled += again.members.len() as u32;
        state.deferred.retain(|edge, _| !within.contains(&graph.edge(*edge).source));
        state.routes.retain(|target, _| !within.contains(target));
        state.routes.values_mut().for_each(|sources| sources.retain(|source| !within.contains(source)));
        state.unrouted.retain(|source, _| !within.contains(source));
        for (ix, inner) in graph.loops.iter().enumerate() {
            if within.contains(&inner.head) {
                state.loops[ix] = LoopState::fresh(inner.members.len());
            }
        }
        state.loops[found as usize].iteration = restarted.iteration;
        let mut around = again.parent;
        while let Some(outer) = around {
            state.loops[outer as usize].unsettled += again.members.len() as u32;
            around = graph.loop_at(outer).parent;
        }
        self.enqueue(again.head, folding.sequence);
        Ok(())
    }
}

/// Whether an edge starts its loop over: each is judged alone, since one that is followed is enough.
fn leads_back(way: &GraphEdge, outcome: Outcome) -> bool {
    let mut alone = Tally::default();
    alone.add(outcome);
    way.rule.verdict(1, alone) == Verdict::Run
}

/// All rules of a node must be satisfied; one that never will be settles it.
fn combine(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut all = Verdict::Run;
    for verdict in verdicts {
        match verdict {
            Verdict::Skip => return Verdict::Skip,
            Verdict::Wait => all = Verdict::Wait,
            Verdict::Run => {}
        }
    }
    all
}
