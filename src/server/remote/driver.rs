//! The task of one connection to a remote server: it sends each message as a request of its own and ends with the
//! connection.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    exchange::exchange,
    legacy,
    shared::{Cause, End, Shared, Style},
    standby::standby,
};
use crate::server::{
    channel::{Kind, Post},
    request::Lost,
};

/// How long others may still get their answers when one request found the connection dead.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long a cancelled request's own exchange may still go on, so that its connection can be used again.
const CANCELLED: Duration = Duration::from_secs(1);
/// How long the server is given to take the end of the session.
const DELETE: Duration = Duration::from_secs(2);

/// What a task of the connection was about.
enum Done {
    Exchange(Kind),
    Stream,
    /// The legacy transport's address is known.
    Endpoint,
}

pub(super) struct Driver {
    shared: Arc<Shared>,
    posts: mpsc::UnboundedReceiver<Post>,
    /// Whether messages can be sent at all.
    has_endpoint: bool,
    /// Whether the server took `notifications/initialized`; nothing may overtake it (LIFE-04).
    is_initialized: bool,
    held: VecDeque<Post>,
    tasks: JoinSet<(Done, Result<(), End>)>,
    running: HashMap<i64, AbortHandle>,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, posts: mpsc::UnboundedReceiver<Post>) -> Self {
        Self {
            has_endpoint: shared.style != Style::Legacy,
            is_initialized: shared.style == Style::Stateless,
            shared,
            posts,
            held: VecDeque::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
        }
    }

    /// Runs until the connection is over. `close` asks for that; `closed` is cancelled when no message comes any more,
    /// and the task itself ends once the server knows.
    pub(super) async fn run(mut self, close: CancellationToken, closed: CancellationToken) {
        if self.shared.style == Style::Legacy {
            self.open_legacy();
        }
        let end = self.serve(&close).await;
        // Whatever was not sent yet will not be.
        self.posts.close();
        while let Ok(post) = self.posts.try_recv() {
            self.held.push_back(post);
        }
        for post in self.held.drain(..) {
            if let Some(id) = post.kind.id() {
                self.shared.lose(id, Lost::NotSent);
            }
        }
        let cause = end.as_ref().map_or(Cause::Other, |end| end.cause);
        if matches!(cause, Cause::SessionGone | Cause::Unreachable) {
            let last_answers = async { while self.tasks.join_next().await.is_some() {} };
            tokio::select! {
                _ = timeout(LAST_ANSWERS, last_answers) => {}
                () = close.cancelled() => {}
            }
        }
        {
            let reading = self.shared.reading();
            if let Some(end) = end {
                reading.link.fail(end.failure, end.reason);
            }
            reading.channel.forget();
        }
        closed.cancel();
        self.tasks.shutdown().await;
        if cause == Cause::Other && self.shared.style == Style::Session && self.shared.endpoint.has_session()
        {
            // Whether it wants to know or not: the session is over.
            let _ = timeout(DELETE, self.shared.endpoint.delete()).await;
        }
    }

    /// Serves until somebody asks for the end or something broke.
    async fn serve(&mut self, close: &CancellationToken) -> Option<End> {
        loop {
            tokio::select! {
                biased;
                () = close.cancelled() => return None,
                Some(done) = self.tasks.join_next() => {
                    // A task that was aborted, or has a fault of its own, ended without a word.
                    let Ok((done, result)) = done else { continue };
                    if let Err(end) = result {
                        return Some(end);
                    }
                    self.done(done);
                }
                post = self.posts.recv() => self.take(post?),
            }
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Exchange(Kind::Initialized) => {
                self.is_initialized = true;
                self.release();
                if self.shared.style == Style::Session {
                    let shared = self.shared.clone();
                    self.tasks
                        .spawn(async move { (Done::Stream, standby(&shared).await) });
                }
            }
            Done::Exchange(kind) => {
                if let Some(id) = kind.id() {
                    self.running.remove(&id);
                }
            }
            Done::Endpoint => {
                self.has_endpoint = true;
                self.release();
            }
            Done::Stream => {}
        }
    }

    /// Takes a message: sends it, or holds it until it may be sent.
    fn take(&mut self, post: Post) {
        if let Kind::Cancel(id) = post.kind {
            let held = self.held.iter().position(|held| held.kind.id() == Some(id));
            if let Some(place) = held {
                // The server never heard of it.
                self.held.remove(place);
                return;
            }
            let running = self.running.remove(&id);
            if self.shared.style == Style::Stateless {
                // The end of the answer's stream is what tells the server.
                if let Some(running) = running {
                    running.abort();
                }
                return;
            }
            if let Some(running) = running {
                self.tasks.spawn(async move {
                    sleep(CANCELLED).await;
                    running.abort();
                    (Done::Stream, Ok(()))
                });
            }
        }
        match self.may_send(post.kind) {
            true => self.send(post),
            false => self.held.push_back(post),
        }
    }

    fn may_send(&self, kind: Kind) -> bool {
        let is_handshake = matches!(kind, Kind::Initialize(_) | Kind::Initialized);
        self.has_endpoint && (self.is_initialized || is_handshake || kind == Kind::Other)
    }

    fn release(&mut self) {
        for post in std::mem::take(&mut self.held) {
            self.take(post);
        }
    }

    fn send(&mut self, post: Post) {
        let shared = self.shared.clone();
        let kind = post.kind;
        let task = self
            .tasks
            .spawn(async move { (Done::Exchange(kind), exchange(&shared, post).await) });
        if let Kind::Request { id, .. } = kind {
            self.running.insert(id, task);
        }
    }

    fn open_legacy(&mut self) {
        let (sender, ready) = oneshot::channel();
        let shared = self.shared.clone();
        self.tasks
            .spawn(async move { (Done::Stream, Err(legacy::read(&shared, sender).await)) });
        self.tasks.spawn(async move {
            match ready.await {
                Ok(()) => (Done::Endpoint, Ok(())),
                // The stream's own task says why.
                Err(_) => (Done::Stream, Ok(())),
            }
        });
    }
}
