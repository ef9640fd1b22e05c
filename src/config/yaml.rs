//! YAML as a tree with places. The tree is made for the whole file, but judged only where it is read: whatever the
//! rest of the file holds, it is not ours and cannot make us fail.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::scalar::{self, Scalar};

/// Nodes of a file, aliases counted as what they stand for: a bound against "billion laughs".
const MOST_NODES: usize = 200_000;
/// Nesting of a file.
const DEEPEST: usize = 64;

/// A place in the file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: usize,
    /// In characters.
    pub(super) column: usize,
}

/// A value with its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) mark: Mark,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A scalar and its text as it is written.
    Scalar(Scalar, String),
    Sequence(Vec<Node>),
    /// Keys and values in the order of the file, `<<` and repeated keys among them.
    Mapping(Vec<(Node, Node)>),
    /// The key `<<`.
    Merge,
    /// A value with a tag that PyYAML would refuse.
    Foreign(String),
}

/// Why a text is not YAML, with the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) mark: Mark,
    pub(super) message: String,
}

/// One key of a mapping that was read: its name, its place, its value.
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) key: &'a Node,
    pub(super) value: &'a Node,
}

/// Something odd about a mapping.
pub(super) struct Oddity {
    pub(super) mark: Mark,
    pub(super) message: String,
}

/// Reads a text with at most one document. Nothing but comments gives `None`.
pub(super) fn load(text: &str) -> Result<Option<Node>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut loader = Loader {
        events: Parser::new_from_str(text),
        anchors: HashMap::new(),
        nodes: 0,
    };
    let mut root = None;
    loop {
        let (event, span) = loader.next()?;
        match event {
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => return Ok(root),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(error(mark(&span), "expected a single document in the file"));
            }
            Event::DocumentStart(_) => {}
            event => root = Some(loader.node(event, &span, 0)?),
        }
    }
}

struct Loader<I> {
    events: I,
    /// What each anchor stands for, and how many nodes that is.
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

impl<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Loader<I> {
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(scan)) => {
                let mark = Mark {
                    line: scan.marker().line(),
                    column: scan.marker().col() + 1,
                };
                Err(error(mark, scan.info()))
            }
            None => Err(error(Mark { line: 1, column: 1 }, "unexpected end of the file")),
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, YamlError> {
        let mark = mark(span);
        if depth > DEEPEST {
            return Err(error(mark, "nested too deeply"));
        }
        let before = self.nodes;
        self.count(1, mark)?;
        let (kind, anchor) = match event {
            Event::Alias(id) => {
                let Some((node, size)) = self.anchors.get(&id).cloned() else {
                    return Err(error(mark, "an alias to an anchor that is not defined before it"));
                };
                self.count(size, mark)?;
                return Ok(Node { mark, ..node });
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let kind = match tag.map(|tag| format!("{}{}", tag.handle, tag.suffix)) {
                    None if is_plain && text == "<<" => Kind::Merge,
                    None if is_plain => Kind::Scalar(scalar::plain(&text), text.into_owned()),
                    None => Kind::Scalar(Scalar::Text, text.into_owned()),
                    Some(tag) => match scalar::tagged(&tag, &text) {
                        Some(value) => Kind::Scalar(value, text.into_owned()),
                        None => Kind::Foreign(tag),
                    },
                };
                (kind, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    items.push(self.node(event, &span, depth + 1)?);
                }
                let tag = tag.map(|tag| format!("{}{}", tag.handle, tag.suffix));
                (
                    tagged(Kind::Sequence(items), tag, "tag:yaml.org,2002:seq"),
                    anchor,
                )
            }
            Event::MappingStart(anchor, tag) => {
                let mut fields = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::MappingEnd) {
                        break;
                    }
                    let key = self.node(event, &span, depth + 1)?;
                    let (event, span) = self.next()?;
                    fields.push((key, self.node(event, &span, depth + 1)?));
                }
                let tag = tag.map(|tag| format!("{}{}", tag.handle, tag.suffix));
                (
                    tagged(Kind::Mapping(fields), tag, "tag:yaml.org,2002:map"),
                    anchor,
                )
            }
            other => return Err(error(mark, format!("unexpected {other:?}"))),
        };
        let node = Node { kind, mark };
        if anchor > 0 {
            // The copy that is kept counts too: nested anchors would multiply memory otherwise.
            let size = self.nodes - before;
            self.count(size, mark)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(node)
    }

    fn count(&mut self, nodes: usize, mark: Mark) -> Result<(), YamlError> {
        self.nodes += nodes;
        match self.nodes > MOST_NODES {
            true => Err(error(
                mark,
                format!("the file expands to more than {MOST_NODES} values"),
            )),
            false => Ok(()),
        }
    }
}

fn tagged(kind: Kind, tag: Option<String>, expected: &str) -> Kind {
    match tag {
        Some(tag) if tag != expected && tag != "!" => Kind::Foreign(tag),
        _ => kind,
    }
}

fn mark(span: &Span) -> Mark {
    Mark {
        line: span.start.line(),
        column: span.start.col() + 1,
    }
}

fn error(mark: Mark, message: impl Into<String>) -> YamlError {
    YamlError {
        mark,
        message: message.into(),
    }
}

impl Node {
    /// What it is, in words for a message.
    pub(super) fn what(&self) -> Cow<'static, str> {
        let what = match &self.kind {
            Kind::Scalar(Scalar::Null, _) => "nothing",
            Kind::Scalar(Scalar::Bool(_), _) => "a boolean",
            Kind::Scalar(Scalar::Int(_) | Scalar::Float(_), _) => "a number",
            Kind::Scalar(Scalar::Text, _) | Kind::Merge => "text",
            Kind::Sequence(_) => "a list",
            Kind::Mapping(_) => "a mapping",
            Kind::Foreign(tag) => return format!("a value with the unknown tag '{tag}'").into(),
        };
        what.into()
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Scalar(Scalar::Null, _))
    }

    /// The keys of a mapping as PyYAML has them: `<<` merged in, own keys over merged ones, the last of equal keys.
    /// `None` when it is no mapping.
    pub(super) fn fields(&self, oddities: &mut Vec<Oddity>) -> Option<Vec<Field<'_>>> {
        let Kind::Mapping(entries) = &self.kind else {
            return None;
        };
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (key, _) in entries {
            if let Some(name) = key.name()
                && let Some(first) = seen.insert(name, key.mark.line)
            {
                let message =
                    format!("the key '{name}' is there twice (first on line {first}); the last one counts");
                oddities.push(Oddity {
                    mark: key.mark,
                    message,
                });
            }
        }
        let mut fields: Vec<Field<'_>> = Vec::new();
        for field in flattened(entries, oddities, 0) {
            match fields.iter_mut().find(|known| known.name == field.name) {
                Some(known) => *known = field,
                None => fields.push(field),
            }
        }
        Some(fields)
    }

    /// A key's name: its text as it is written.
    fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(_, text) => Some(text),
            _ => None,
        }
    }
}

/// Merged keys first, so that own ones come over them; of a list of mappings the first wins.
fn flattened<'a>(entries: &'a [(Node, Node)], oddities: &mut Vec<Oddity>, depth: usize) -> Vec<Field<'a>> {
    let mut merged = Vec::new();
    let mut own = Vec::new();
    for (key, value) in entries {
        match (&key.kind, key.name()) {
            (Kind::Merge, _) if depth < DEEPEST => match &value.kind {
                Kind::Mapping(inner) => merged.extend(flattened(inner, oddities, depth + 1)),
                Kind::Sequence(list) => {
                    for item in list.iter().rev() {
                        match &item.kind {
                            Kind::Mapping(inner) => merged.extend(flattened(inner, oddities, depth + 1)),
                            _ => oddities.push(not_mergeable(item)),
                        }
                    }
                }
                _ => oddities.push(not_mergeable(value)),
            },
            (_, Some(name)) => own.push(Field { name, key, value }),
            _ => {
                let message = format!("a key is text, not {}; it is ignored", key.what());
                oddities.push(Oddity {
                    mark: key.mark,
                    message,
                });
            }
        }
    }
    merged.extend(own);
    merged
}

fn not_mergeable(value: &Node) -> Oddity {
    Oddity {
        mark: value.mark,
        message: format!(
            "'<<' takes a mapping or a list of mappings, not {}; it is ignored",
            value.what()
        ),
    }
}

/// The tree as JSON, for comparison with PyYAML.
#[cfg(test)]
pub(super) fn to_json(node: &Node) -> Result<serde_json::Value, String> {
    use serde_json::{Map, Value};
    Ok(match &node.kind {
        Kind::Scalar(Scalar::Null, _) => Value::Null,
        Kind::Scalar(Scalar::Bool(value), _) => Value::Bool(*value),
        Kind::Scalar(Scalar::Int(digits), _) => {
            serde_json::from_str(digits).map_err(|error| error.to_string())?
        }
        Kind::Scalar(Scalar::Float(value), _) => {
            serde_json::Number::from_f64(*value).map_or(Value::Null, Value::Number)
        }
        Kind::Scalar(Scalar::Text, text) => Value::String(text.clone()),
        Kind::Merge => Value::String("<<".into()),
        Kind::Sequence(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Kind::Foreign(tag) => return Err(format!("unknown tag {tag}")),
        Kind::Mapping(_) => {
            let mut oddities = Vec::new();
            let fields = node.fields(&mut oddities).unwrap_or_default();
            if let Some(refused) = oddities.iter().find(|it| it.message.ends_with("it is ignored")) {
                return Err(refused.message.clone());
            }
            let mut map = Map::new();
            for field in fields {
                let key = match &field.key.kind {
                    Kind::Scalar(Scalar::Text, text) => text.clone(),
                    _ => match to_json(field.key)? {
                        Value::Null => "null".into(),
                        other => other.to_string(),
                    },
                };
                map.insert(key, to_json(field.value)?);
            }
            Value::Object(map)
        }
    })
}

#[cfg(test)]
mod tests;
