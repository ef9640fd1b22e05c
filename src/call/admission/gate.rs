//! The queue before a server that takes only so many calls at a time: fair between frontends, first come first served
//! within one (TOOL-17).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::name::ServerName;

/// One frontend's place in a queue: those of its calls that wait.
struct Line {
    frontend: u64,
    calls: VecDeque<oneshot::Sender<()>>,
}

/// The queue of one server.
#[derive(Default)]
struct Gate {
    running: usize,
    limit: usize,
    /// The next turn is the first line's.
    lines: VecDeque<Line>,
}

impl Gate {
    fn wait(&mut self, frontend: u64) -> oneshot::Receiver<()> {
        let (call, turn) = oneshot::channel();
        match self.lines.iter_mut().find(|line| line.frontend == frontend) {
            Some(line) => line.calls.push_back(call),
            None => self.lines.push_back(Line {
                frontend,
                calls: VecDeque::from([call]),
            }),
        }
        turn
    }

    /// Gives free places to those who wait.
    fn admit(&mut self) {
        while self.running < self.limit
            && let Some(mut line) = self.lines.pop_front()
        {
            // Who gave up is passed over.
            while let Some(call) = line.calls.pop_front() {
                if call.send(()).is_ok() {
                    self.running += 1;
                    break;
                }
            }
            if !line.calls.is_empty() {
                self.lines.push_back(line);
            }
        }
    }
}

/// The queues of all servers that have one.
#[derive(Default)]
pub(in crate::call) struct Gates(Mutex<HashMap<ServerName, Gate>>);

impl Gates {
    /// Waits for a place among the `limit` calls that may run on a server at the same time.
    pub(in crate::call) async fn enter(&self, server: &ServerName, limit: usize, frontend: u64) -> Turn<'_> {
        let receiver = {
            let mut gates = self.lock();
            let gate = gates.entry(server.clone()).or_default();
            gate.limit = limit;
            let receiver = gate.wait(frontend);
            gate.admit();
            receiver
        };
        let mut turn = Turn {
            gates: self,
            server: server.clone(),
            waiting: Some(receiver),
        };
        if let Some(receiver) = &mut turn.waiting {
            // The sender is dropped only with the gate, and that never goes while somebody waits.
            let _ = receiver.await;
        }
        turn.waiting = None;
        turn
    }

    fn leave(&self, server: &ServerName) {
        let mut gates = self.lock();
        if let Some(gate) = gates.get_mut(server) {
            gate.running -= 1;
            gate.admit();
            if gate.running == 0 && gate.lines.is_empty() {
                gates.remove(server);
            }
        }
    }

    /// Never held across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName, Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, given back when it is dropped.
pub(in crate::call) struct Turn<'a> {
    gates: &'a Gates,
    server: ServerName,
    waiting: Option<oneshot::Receiver<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let has_place = match &mut self.waiting {
            None => true,
            // It may have been given in this very moment.
            Some(receiver) => {
                receiver.close();
                receiver.try_recv().is_ok()
            }
        };
        if has_place {
            self.gates.leave(&self.server);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;

    fn server() -> ServerName {
        ServerName::from("a")
    }

    #[tokio::test]
    async fn turns_go_round_between_frontends() {
        let gates = Arc::new(Gates::default());
        let first = gates.enter(&server(), 1, 0).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        // Frontend 1 asks for five, then 2 and 3 for two each.
        let asked = [1, 1, 1, 1, 1, 2, 2, 3, 3];
        let tasks: Vec<_> = asked
            .iter()
            .map(|&frontend| {
                let (gates, order) = (gates.clone(), order.clone());
                tokio::spawn(async move {
                    let _turn = gates.enter(&server(), 1, frontend).await;
                    order.lock().unwrap().push(frontend);
                    tokio::task::yield_now().await;
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 1, 2, 3, 1, 1, 1]);
        assert!(
            gates.lock().is_empty(),
            "nothing is kept for a server without calls"
        );
    }

    #[tokio::test]
    async fn no_more_than_the_limit_run_and_who_gives_up_takes_no_place() {
        let gates = Gates::default();
        let one = gates.enter(&server(), 2, 1).await;
        let two = gates.enter(&server(), 2, 1).await;
        assert!(gates.enter(&server(), 2, 1).now_or_never().is_none(), "full");
        let a = server();
        let mut waiting = Box::pin(gates.enter(&a, 2, 2));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Its turn comes, and it gives up before it looks.
        drop(one);
        drop(waiting);
        let three = gates.enter(&server(), 2, 3).now_or_never();
        assert!(three.is_some(), "the place came back");
        drop((two, three));
        assert!(gates.lock().is_empty());
    }

    #[tokio::test]
    async fn a_higher_limit_counts_at_once() {
        let gates = Gates::default();
        let _one = gates.enter(&server(), 1, 1).await;
        let a = server();
        let mut second = Box::pin(gates.enter(&a, 1, 1));
        assert!(second.as_mut().now_or_never().is_none());
        let _third = gates.enter(&server(), 3, 2).now_or_never().unwrap();
        assert!(second.now_or_never().is_some());
    }
}
