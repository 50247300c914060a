//! Explores all states of a model, breadth first, so that a counterexample is as short as possible.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;

/// A system of states and transitions.
pub(super) trait System {
    type State: Copy;
    type Action: Copy + Debug;

    /// Returns a number that is unique to this state.
    fn key(&self, state: &Self::State) -> u128;
    /// Returns the first state.
    fn start(&self) -> Self::State;
    /// Lists the transitions from a state.
    fn add_transitions(&self, state: &Self::State, transitions: &mut Vec<(Self::Action, Self::State)>);
    /// Returns the property that a state violates, if any.
    fn violated_property(&self, state: &Self::State) -> Option<&'static str>;
    /// Returns true if nothing is left to do in a state.
    fn is_settled(&self, state: &Self::State) -> bool;
}

/// The result of an exploration.
pub(super) struct Exploration {
    /// True if every state that can be reached was visited.
    pub(super) is_complete: bool,
    pub(super) state_count: usize,
    pub(super) transition_count: usize,
    pub(super) counterexample: Option<Counterexample>,
}

/// A violated property, and the shortest way to a state that violates it.
#[derive(Debug)]
pub(super) struct Counterexample {
    pub(super) property: &'static str,
    pub(super) trace: Vec<String>,
}

/// The property that each state has a way to a settled state.
pub(super) const PROGRESS_PROPERTY: &str = "from every state a run leads to a settled state";

/// Explores at most `limit` states, until one violates a property. Looks for dead ends only after visiting
/// all states.
pub(super) fn explore<S: System>(system: &S, limit: usize) -> Exploration {
    let start = system.start();
    let mut numbers = HashMap::from([(system.key(&start), 0)]);
    let mut queue = VecDeque::from([start]);
    let mut origins = vec![Origin { state: 0, transition: 0 }];
    // Each edge leads from the later state to the earlier one.
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut settled_states = Vec::new();
    let mut transitions = Vec::new();
    let mut number = 0;
    let mut violation = None;
    while index(number) < limit {
        let Some(state) = queue.pop_front() else { break };
        if let Some(property) = system.violated_property(&state) {
            violation = Some((property, number));
            break;
        }
        if system.is_settled(&state) {
            settled_states.push(number);
        }
        system.add_transitions(&state, &mut transitions);
        for (transition, (_, next_state)) in transitions.drain(..).enumerate() {
            let new_number = number_of(origins.len());
            let state_number = *numbers.entry(system.key(&next_state)).or_insert(new_number);
            if state_number == new_number {
                origins.push(Origin { state: number, transition: number_of(transition) });
                queue.push_back(next_state);
            }
            edges.push((state_number, number));
        }
        number += 1;
    }
    let (state_count, transition_count) = (origins.len(), edges.len());
    let is_complete = violation.is_none() && queue.is_empty();
    if is_complete {
        violation = dead_end(state_count, settled_states, edges).map(|number| (PROGRESS_PROPERTY, number));
    }
    let counterexample = violation
        .map(|(property, number)| Counterexample { property, trace: trace(system, &origins, number) });
    Exploration { is_complete, state_count, transition_count, counterexample }
}

/// The transition that first led to a state.
struct Origin {
    state: u32,
    transition: u32,
}

/// Returns the number of a state or transition with this index.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap()
}

/// Returns the index of a state or transition with this number.
fn index(number: u32) -> usize {
    usize::try_from(number).unwrap()
}

/// Returns the actions that lead to a state.
fn trace<S: System>(system: &S, origins: &[Origin], mut number: u32) -> Vec<String> {
    let mut path = Vec::new();
    while number != 0 {
        let Origin { state, transition } = origins[index(number)];
        path.push(transition);
        number = state;
    }
    let mut state = system.start();
    let mut transitions = Vec::new();
    let follow = |transition| {
        system.add_transitions(&state, &mut transitions);
        let (action, next_state) = transitions.drain(..).nth(index(transition)).unwrap();
        state = next_state;
        format!("{action:?}")
    };
    path.into_iter().rev().map(follow).collect()
}

/// Returns the first state from which no settled state can be reached.
fn dead_end(states: usize, settled_states: Vec<u32>, mut edges: Vec<(u32, u32)>) -> Option<u32> {
    edges.sort_unstable();
    let mut can_settle = vec![false; states];
    settled_states.iter().for_each(|&number| can_settle[index(number)] = true);
    let mut queue = settled_states;
    while let Some(target) = queue.pop() {
        let first_edge = edges.partition_point(|&(end, _)| end < target);
        for &(_, source) in edges[first_edge..].iter().take_while(|&&(end, _)| end == target) {
            if !std::mem::replace(&mut can_settle[index(source)], true) {
                queue.push(source);
            }
        }
    }
    can_settle.iter().position(|can_settle| !can_settle).map(number_of)
}
