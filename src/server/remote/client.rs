//! HTTP clients as the configuration wants them: whom they trust, as whom they come, which proxies they use.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Certificate, Client, ClientBuilder, Identity, NoProxy, Proxy, redirect};
use sha2::{Digest, Sha256};
use url::{Host, Url};

use crate::{
    config::{Remote, Verify},
    environment::Environment,
};

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);
/// How soon the system finds out that nobody is at the other end of a silent connection.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("hermesd-mcp/", env!("CARGO_PKG_VERSION"));

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the file of {key}, '{path}', could not be read: {error}")]
    Read {
        key: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("the file of {key}, '{path}', {problem}")]
    Content {
        key: &'static str,
        path: PathBuf,
        problem: &'static str,
    },
    #[error("the environment variable {variable} is not the address of a proxy")]
    Proxy { variable: &'static str },
    #[error("the HTTP client could not be set up: {0}")]
    Build(String),
}

impl ClientError {
    /// The key of the entry that it is about.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Read { key, .. } | Self::Content { key, .. } => key,
            Self::Proxy { .. } | Self::Build(_) => "url",
        }
    }
}

/// Makes clients; servers that need the same one share it, and with it the pool of connections.
pub(crate) struct HttpClients {
    environment: Environment,
    made: Mutex<HashMap<[u8; 32], Client>>,
}

impl HttpClients {
    /// `environment` is where proxies come from.
    pub(crate) fn new(environment: Environment) -> Self {
        // Another one that is installed already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            environment,
            made: Mutex::default(),
        }
    }

    /// The client for a server. Files are read each time, so that a renewed certificate counts.
    ///
    /// # Errors
    /// A file cannot be read or used, or a proxy variable is wrong.
    pub(crate) fn client(&self, remote: &Remote, connect_timeout: Duration) -> Result<Client, ClientError> {
        let is_loopback = is_loopback(&remote.url);
        let is_tls = remote.url.scheme() == "https";
        let files = match is_tls {
            true => TlsFiles::read(remote)?,
            false => TlsFiles::default(),
        };
        let key = files.key(remote, connect_timeout, is_loopback, is_tls);
        if let Some(client) = self.made().get(&key) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .tcp_keepalive(TCP_KEEPALIVE)
            .tcp_nodelay(true)
            // HTTP-13: what a redirect means for a POST with credentials is decided where it is sent.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy();
        if !is_loopback {
            for proxy in proxies(&self.environment)? {
                builder = builder.proxy(proxy);
            }
        }
        let client = files
            .apply(builder, remote, is_tls)?
            .build()
            .map_err(|error| ClientError::Build(super::failure::text_of(&error)))?;
        self.made().insert(key, client.clone());
        Ok(client)
    }

    /// Held for a lookup, never across an await.
    fn made(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Client>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an address is this machine itself: never through a proxy (HTTP-14).
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address
                    .to_ipv4_mapped()
                    .is_some_and(|address| address.is_loopback())
        }
        None => false,
    }
}

/// The proxies of the environment, with the names that curl and httpx know.
fn proxies(environment: &Environment) -> Result<Vec<Proxy>, ClientError> {
    let value = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| {
            environment
                .get_non_empty(name)
                .map(|value| (name, value.to_owned()))
        })
    };
    let except = value(["no_proxy", "NO_PROXY"]).and_then(|(_, list)| NoProxy::from_string(&list));
    type Make = fn(String) -> reqwest::Result<Proxy>;
    let kinds: [([&'static str; 2], Make); 3] = [
        (["http_proxy", "HTTP_PROXY"], Proxy::http),
        (["https_proxy", "HTTPS_PROXY"], Proxy::https),
        (["all_proxy", "ALL_PROXY"], Proxy::all),
    ];
    let mut proxies = Vec::new();
    for (names, make) in kinds {
        if let Some((variable, address)) = value(names) {
            let proxy = make(address).map_err(|_| ClientError::Proxy { variable })?;
            proxies.push(proxy.no_proxy(except.clone()));
        }
    }
    Ok(proxies)
}

/// The files that an entry names, read.
#[derive(Default)]
struct TlsFiles {
    authorities: Option<Vec<u8>>,
    /// Certificate and key.
    identity: Option<Vec<u8>>,
}

impl TlsFiles {
    fn read(remote: &Remote) -> Result<Self, ClientError> {
        let authorities = match &remote.verify {
            Verify::File(path) => Some(read("ssl_verify", path)?),
            Verify::System | Verify::Off => None,
        };
        let identity = match &remote.identity {
            Some(identity) => {
                let mut pem = read("client_cert", &identity.cert)?;
                if let Some(key) = &identity.key {
                    pem.push(b'\n');
                    pem.extend(read("client_key", key)?);
                }
                Some(pem)
            }
            None => None,
        };
        Ok(Self {
            authorities,
            identity,
        })
    }

    /// What has to be the same for a client to be shared.
    fn key(&self, remote: &Remote, connect_timeout: Duration, is_loopback: bool, is_tls: bool) -> [u8; 32] {
        let mut hash = Sha256::new();
        let facts = (connect_timeout, is_loopback, is_tls, remote.verify == Verify::Off);
        hash.update(format!("{facts:?}"));
        for file in [&self.authorities, &self.identity] {
            let file = file.as_deref().unwrap_or_default();
            hash.update(file.len().to_le_bytes());
            hash.update(file);
        }
        hash.finalize().into()
    }

    fn apply(
        self,
        mut builder: ClientBuilder,
        remote: &Remote,
        is_tls: bool,
    ) -> Result<ClientBuilder, ClientError> {
        if !is_tls {
            // Reading the system's authorities takes time and memory that plain HTTP has no use for.
            return Ok(builder.tls_backend_preconfigured(without_authorities()));
        }
        if let (Verify::File(path), Some(pem)) = (&remote.verify, self.authorities) {
            let certificates = Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or(ClientError::Content {
                    key: "ssl_verify",
                    path: path.clone(),
                    problem: "has no certificate in PEM form",
                })?;
            builder = builder.tls_certs_only(certificates);
        }
        if let (Some(identity), Some(pem)) = (&remote.identity, self.identity) {
            let problem = match memchr::memmem::find(&pem, b"ENCRYPTED").is_some() {
                true => {
                    "has a key with a password; store it without one (openssl pkey -in key.pem -out plain.pem)"
                }
                false => "holds with client_key no certificate and key in PEM form that belong together",
            };
            let read = Identity::from_pem(&pem).map_err(|_| ClientError::Content {
                key: "client_cert",
                path: identity.cert.clone(),
                problem,
            })?;
            builder = builder.identity(read);
        }
        Ok(builder.tls_danger_accept_invalid_certs(remote.verify == Verify::Off))
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, ClientError> {
    std::fs::read(path).map_err(|error| ClientError::Read {
        key,
        path: path.to_owned(),
        error,
    })
}

pub(super) fn without_authorities() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name_and_number() {
        for (url, expected) in [
            ("http://localhost:1/", true),
            ("http://LOCALHOST./", true),
            ("http://a.localhost/", true),
            ("http://127.8.0.1/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
            ("http://[fe80::1]/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn a_proxy_that_is_none_is_named_by_its_variable_only() {
        let environment: Environment = [("HTTPS_PROXY", "http://user:s3cret@:x/")].into_iter().collect();
        let error = proxies(&environment).unwrap_err().to_string();
        assert_eq!(
            error,
            "the environment variable HTTPS_PROXY is not the address of a proxy"
        );
        let environment: Environment = [
            ("http_proxy", "http://p:1"),
            ("HTTP_PROXY", "http://q:1"),
            ("all_proxy", ""),
        ]
        .into_iter()
        .collect();
        assert_eq!(proxies(&environment).unwrap().len(), 1);
    }
}
