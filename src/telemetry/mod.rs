//! Logging. Quiet at info: state changes only, one line each; never a body, an argument or an environment value.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// What is logged when nobody says otherwise. rmcp logs bodies at info and debug, so it is silent unless asked for by
/// name.
const DEFAULT_FILTER: &str = "info";

/// Starts logging to stderr. `filter` is a `tracing` filter such as `debug` or `hermesd_mcp::server=trace`.
///
/// A filter that cannot be read is reported, and the default is used. A second call changes nothing.
pub fn init(filter: Option<&str>) {
    let (filter, problem) = match filter.map(parse).unwrap_or_else(|| parse(DEFAULT_FILTER)) {
        Ok(filter) => (filter, None),
        Err(error) => (parse(DEFAULT_FILTER).unwrap_or_default(), Some(error)),
    };
    let text = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // A stderr that is closed must not end the daemon, and the complaint would go there too.
        .log_internal_errors(false);
    let started = tracing_subscriber::registry().with(filter).with(text).try_init();
    if let (Ok(()), Some(error)) = (started, problem) {
        tracing::warn!("the log filter cannot be read, using '{DEFAULT_FILTER}': {error}");
    }
}

fn parse(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let names_rmcp = filter.contains("rmcp");
    let filter = EnvFilter::builder().parse(filter)?;
    Ok(match names_rmcp {
        true => filter,
        false => match "rmcp=off".parse() {
            Ok(directive) => filter.add_directive(directive),
            Err(_) => filter,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rmcp_is_silent_unless_it_is_named() {
        assert!(parse("debug").unwrap().to_string().contains("rmcp=off"));
        assert!(
            !parse("debug,rmcp=trace")
                .unwrap()
                .to_string()
                .contains("rmcp=off")
        );
        assert!(parse("no=such=filter").is_err());
    }
}
