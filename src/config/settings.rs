//! The daemon's own settings: the top-level key `hermesd`.

use super::{model::Settings, reader::Reader, server::Entry, yaml::Node};
use crate::{environment::Environment, wire::Limits};

const KNOWN: [&str; 6] = [
    "socket",
    "log_level",
    "tool_name_format",
    "watch",
    "drain_timeout",
    "limits",
];
/// The least that a limit makes sense with.
const LEAST_MESSAGE: u64 = 64 << 10;

pub(super) fn read(reader: &mut Reader<'_>, node: &Node, environment: &Environment) -> Settings {
    let mut settings = Settings::default();
    let path = "hermesd";
    let Some(fields) = reader.mapping(node, path) else {
        return settings;
    };
    reader.unknown(&fields, path, &KNOWN, &[]);
    let entry = Entry {
        fields: &fields,
        path,
    };
    settings.socket = entry
        .get("socket")
        .and_then(|(field, key)| reader.text(field.value, &key))
        .map(|text| {
            environment
                .hermes_home()
                .dir()
                .join(environment.expand_tilde(text.trim()))
        });
    settings.log_level = entry
        .get("log_level")
        .and_then(|(field, key)| reader.text(field.value, &key));
    settings.watch = entry.boolean(reader, "watch", settings.watch);
    settings.drain_timeout = entry.seconds(reader, "drain_timeout", settings.drain_timeout);
    if let Some((field, key)) = entry.get("tool_name_format")
        && let Some(format) = reader.text(field.value, &key)
    {
        match format_problem(&format) {
            Some(problem) => reader.error(
                field.value,
                &key,
                format!("{problem}; the default is mcp_{{server}}_{{tool}}"),
            ),
            None => settings.tool_name_format = format,
        }
    }
    if let Some((field, key)) = entry.get("limits") {
        settings.limits = limits(reader, field.value, &key);
    }
    settings
}

/// A name needs both parts, and providers take only letters, digits and underscores.
fn format_problem(format: &str) -> Option<&'static str> {
    if format.matches("{server}").count() != 1 || format.matches("{tool}").count() != 1 {
        return Some("expected a text with {server} and {tool} once each");
    }
    let rest = format.replace("{server}", "").replace("{tool}", "");
    let is_plain = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (!is_plain).then_some("only letters, digits and '_' may stand beside {server} and {tool}")
}

fn limits(reader: &mut Reader<'_>, node: &Node, path: &str) -> Limits {
    let mut limits = Limits::default();
    let Some(fields) = reader.mapping(node, path) else {
        return limits;
    };
    let places: [(&str, &str, u64, &mut usize); 10] = [
        ("message_bytes", "bytes", LEAST_MESSAGE, &mut limits.message_bytes),
        ("json_depth", "levels", 8, &mut limits.json_depth),
        ("list_pages", "pages", 1, &mut limits.list_pages),
        ("list_items", "items", 1, &mut limits.list_items),
        ("list_bytes", "bytes", LEAST_MESSAGE, &mut limits.list_bytes),
        ("connections", "connections", 1, &mut limits.connections),
        ("in_flight", "requests", 1, &mut limits.in_flight),
        ("queue_messages", "messages", 1, &mut limits.queue_messages),
        ("queue_bytes", "bytes", LEAST_MESSAGE, &mut limits.queue_bytes),
        ("stderr_bytes", "bytes", 1024, &mut limits.stderr_bytes),
    ];
    reader.unknown(&fields, path, &places.each_ref().map(|(name, ..)| *name), &[]);
    let entry = Entry {
        fields: &fields,
        path,
    };
    for (name, unit, least, place) in places {
        let number = entry
            .get(name)
            .and_then(|(field, key)| reader.whole(field.value, &key, unit, least));
        if let Some(number) = number.and_then(|number| usize::try_from(number).ok()) {
            *place = number;
        }
    }
    limits
}
