//! Which servers exist: starts one actor for each, keeps the catalog in step with what they offer, stops them all.

use std::sync::Arc;

use futures_util::future::join_all;
use indexmap::IndexMap;
use tokio::sync::{Notify, watch};

use crate::{
    catalog::{Catalog, ServerTools},
    config::{Config, ServerConfig, ServerEntry},
    name::ServerName,
    server::{ListedTool, ServerHandle, ServerView, Surroundings},
};

/// One entry of the configuration, running or not.
#[derive(Clone)]
pub enum Member {
    /// A server with its actor.
    Server(ServerHandle),
    /// An entry that cannot be used, with the reason.
    Invalid {
        /// The entry's error: file, line, column, key and what is wrong.
        error: String,
    },
}

/// An immutable picture of all servers and of the merged list.
#[derive(Clone)]
pub struct Directory {
    /// The merged list.
    pub catalog: Arc<Catalog>,
    /// Every configured server, in the order of the file.
    pub servers: Arc<IndexMap<ServerName, Member>>,
}

/// Owns the servers.
pub struct Supervisor {
    servers: Arc<IndexMap<ServerName, Member>>,
    directory: watch::Receiver<Directory>,
    changes: watch::Receiver<u64>,
}

impl Supervisor {
    /// Starts every enabled server, all at once. `changed` is the signal of the surroundings.
    pub fn start(config: &Config, surroundings: Surroundings) -> Self {
        let changed = surroundings.changed.clone();
        let surroundings = Arc::new(surroundings);
        let servers: IndexMap<ServerName, Member> = config
            .servers
            .iter()
            .map(|(name, entry)| {
                let member = match entry {
                    ServerEntry::Valid(server) => Member::Server(ServerHandle::spawn(
                        ServerConfig::clone(server),
                        surroundings.clone(),
                    )),
                    ServerEntry::Invalid { error } => Member::Invalid { error: error.clone() },
                };
                (name.clone(), member)
            })
            .collect();
        let servers = Arc::new(servers);
        let first = Directory {
            catalog: Arc::new(Catalog::empty()),
            servers: servers.clone(),
        };
        let (publish, directory) = watch::channel(first);
        let (count, changes) = watch::channel(0);
        tokio::spawn(keep_catalog(
            publish,
            changed,
            count,
            config.settings.tool_name_format.clone(),
        ));
        Self {
            servers,
            directory,
            changes,
        }
    }

    /// The picture, kept up to date.
    pub fn directory(&self) -> watch::Receiver<Directory> {
        self.directory.clone()
    }

    /// Counts up whenever a server's view or the merged list changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Stops all servers in parallel and returns when nothing of them is left.
    pub async fn stop(&self) {
        join_all(self.servers.values().filter_map(|member| match member {
            Member::Server(handle) => Some(handle.stop()),
            Member::Invalid { .. } => None,
        }))
        .await;
    }
}

/// What the catalog was built from last, per server. Cheap to compare, so that a mere change of state builds nothing.
struct Offer {
    tools: Arc<[ListedTool]>,
    has_resources: bool,
    has_prompts: bool,
}

impl Offer {
    fn of(view: &ServerView) -> Self {
        let capabilities = view
            .info
            .as_ref()
            .map(|info| info.capabilities)
            .unwrap_or_default();
        Self {
            tools: view.tools.clone(),
            has_resources: capabilities.resources,
            has_prompts: capabilities.prompts,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools)
            && self.has_resources == other.has_resources
            && self.has_prompts == other.has_prompts
    }
}

/// Builds a new catalog whenever a server's offer changed. Ends with the supervisor.
async fn keep_catalog(
    publish: watch::Sender<Directory>,
    changed: Arc<Notify>,
    count: watch::Sender<u64>,
    name_format: String,
) {
    let mut last: Vec<Offer> = Vec::new();
    while !publish.is_closed() {
        let directory = publish.borrow().clone();
        let views: Vec<Arc<ServerView>> = directory
            .servers
            .values()
            .filter_map(|member| match member {
                Member::Server(handle) => Some(handle.view()),
                Member::Invalid { .. } => None,
            })
            .collect();
        let offers: Vec<Offer> = views.iter().map(|view| Offer::of(view)).collect();
        let is_same = offers.len() == last.len() && offers.iter().zip(&last).all(|(a, b)| a.is_same(b));
        if !is_same {
            let servers: Vec<ServerTools<'_>> = views
                .iter()
                .zip(&offers)
                .map(|(view, offer)| ServerTools {
                    server: view.name(),
                    policy: &view.config.tools,
                    parallel_safe: view.config.parallel_safe,
                    tools: &offer.tools,
                    has_resources: offer.has_resources,
                    has_prompts: offer.has_prompts,
                })
                .collect();
            let catalog = Catalog::build(&servers, &name_format, &directory.catalog);
            if catalog.generation() != directory.catalog.generation() {
                tracing::info!(
                    generation = catalog.generation(),
                    tools = catalog.tools().len(),
                    "the tool list changed"
                );
                log_new_warnings(&directory.catalog, &catalog);
            }
            publish.send_replace(Directory {
                catalog: Arc::new(catalog),
                ..directory
            });
            last = offers;
        }
        count.send_modify(|count| *count += 1);
        changed.notified().await;
    }
}

fn log_new_warnings(old: &Catalog, new: &Catalog) {
    for warning in new
        .warnings()
        .iter()
        .filter(|warning| !old.warnings().contains(warning))
    {
        tracing::warn!("{warning}");
    }
}
