//! What a server may ask of a frontend: `sampling` and `elicitation` of an entry.

use super::{
    model::{Elicitation, Sampling},
    reader::Reader,
    server::Entry,
    yaml::{Kind, Node},
};

pub(super) fn sampling(reader: &mut Reader<'_>, node: &Node, key: &str) -> Sampling {
    let mut sampling = Sampling::default();
    // `sampling: false` says what it means.
    if let Kind::Scalar(..) = node.kind {
        sampling.enabled = reader.boolean(node, key, true);
        return sampling;
    }
    let fields = reader.mapping(node, key).unwrap_or_default();
    let known = [
        "enabled",
        "model",
        "max_tokens_cap",
        "timeout",
        "max_rpm",
        "allowed_models",
        "max_tool_rounds",
        "log_level",
        "expose_client_tools",
    ];
    reader.unknown(&fields, key, &known, &[]);
    let entry = Entry {
        fields: &fields,
        path: key,
    };
    let mut whole = |name, unit, least, default: u64| {
        entry
            .get(name)
            .and_then(|(field, key)| reader.whole(field.value, &key, unit, least))
            .unwrap_or(default)
    };
    sampling.max_tokens_cap = whole("max_tokens_cap", "tokens", 1, sampling.max_tokens_cap);
    sampling.max_rpm =
        u32::try_from(whole("max_rpm", "requests", 1, sampling.max_rpm.into())).unwrap_or(u32::MAX);
    sampling.max_tool_rounds = u32::try_from(whole(
        "max_tool_rounds",
        "rounds",
        0,
        sampling.max_tool_rounds.into(),
    ))
    .unwrap_or(u32::MAX);
    sampling.enabled = entry.boolean(reader, "enabled", true);
    sampling.timeout = entry.seconds(reader, "timeout", sampling.timeout);
    sampling.model = entry
        .get("model")
        .and_then(|(field, key)| reader.text(field.value, &key));
    if let Some((field, key)) = entry.get("allowed_models") {
        sampling.allowed_models = reader.names(field.value, &key).unwrap_or_default();
    }
    if let Some((field, key)) = entry.get("log_level") {
        let levels = [("debug", "debug"), ("info", "info"), ("warning", "warning")];
        sampling.log_level = reader.word(field.value, &key, &levels, "info").into();
    }
    sampling
}

pub(super) fn elicitation(reader: &mut Reader<'_>, node: &Node, key: &str) -> Elicitation {
    let mut elicitation = Elicitation::default();
    if let Kind::Scalar(..) = node.kind {
        elicitation.enabled = reader.boolean(node, key, true);
        return elicitation;
    }
    let fields = reader.mapping(node, key).unwrap_or_default();
    reader.unknown(&fields, key, &["enabled", "timeout"], &[]);
    let entry = Entry {
        fields: &fields,
        path: key,
    };
    elicitation.enabled = entry.boolean(reader, "enabled", true);
    elicitation.timeout = entry.seconds(reader, "timeout", elicitation.timeout);
    elicitation
}
