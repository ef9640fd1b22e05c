use super::*;

/// Text with what looks like a credential, and what has to become of it.
pub(super) const BY_PATTERN: &[(&str, &str)] = &[
    // Hermes' list (hermes-behaviour, Security; conformance 39), with the hyphens that it misses.
    ("token ghp_0123456789abcdef!", "token [REDACTED]!"),
    ("sk-abc123 and sk-proj-a1-b2.", "[REDACTED] and [REDACTED]."),
    ("Bearer abc.def rest", "Bearer [REDACTED] rest"),
    (
        "token=abc, key=def API_KEY=ghi",
        "token=[REDACTED], key=[REDACTED] API_KEY=[REDACTED]",
    ),
    (
        "password=hunter2; secret=x next",
        "password=[REDACTED]; secret=[REDACTED] next",
    ),
    // B63.
    (
        "401 Authorization: Bearer sk-abc123def456 https://x/mcp?api_key=SECRET1&code=SECRET2 xoxp-1-2-3",
        "401 Authorization: [REDACTED] https://x/mcp?api_key=[REDACTED]&code=[REDACTED] [REDACTED]",
    ),
    (
        "api_key=SECRET1&code=SECRET2",
        "api_key=[REDACTED]&code=[REDACTED]",
    ),
    // Headers.
    (
        "Proxy-Authorization: Basic dXNlcjpwdw== x",
        "Proxy-Authorization: [REDACTED] x",
    ),
    (
        "X-Api-Key: abc, x-goog-token: def",
        "X-Api-Key: [REDACTED], x-goog-token: [REDACTED]",
    ),
    ("Cookie: a=b; c=d\nnext", "Cookie: [REDACTED]\nnext"),
    ("token=Bearer abc rest", "token=[REDACTED] rest"),
    // Values in quotes go as a whole.
    (r#"password="a b c" rest"#, r#"password="[REDACTED]" rest"#),
    ("password='a b c' rest", "password='[REDACTED]' rest"),
    (r#"--token "a b" -x"#, r#"--token "[REDACTED]" -x"#),
    (
        r#"{"access_token": "a\"b c", "n": 1}"#,
        r#"{"access_token": "[REDACTED]", "n": 1}"#,
    ),
    (
        r#"{"Authorization":"Digest username=\"x\", response=\"y\""}"#,
        r#"{"Authorization":"[REDACTED]"}"#,
    ),
    (
        r#""{\"apiKey\": \"abc\", \"n\": 1}""#,
        r#""{\"apiKey\": \"[REDACTED]\", \"n\": 1}""#,
    ),
    (r#""say \"token=abc\" now""#, r#""say \"token=[REDACTED]\" now""#),
    (
        "{'Authorization': 'Basic abc', 'secret': 'x y'}",
        "{'Authorization': '[REDACTED]', 'secret': '[REDACTED]'}",
    ),
    ("run --api-key abc --name x", "run --api-key [REDACTED] --name x"),
    // Addresses.
    ("postgres://me:pw@host/db", "postgres://[REDACTED]@host/db"),
    ("redis://:p@ss@host", "redis://[REDACTED]@host"),
    (
        "https://x/?X-Amz-Signature=abc&n=1",
        "https://x/?X-Amz-Signature=[REDACTED]&n=1",
    ),
    (
        "https://x/cb#access_token=abc",
        "https://x/cb#access_token=[REDACTED]",
    ),
    // Known shapes.
    (
        "gho_a1 ghu_a1 ghs_a1 ghr_a1 github_pat_11A_b",
        "[REDACTED] [REDACTED] [REDACTED] [REDACTED] [REDACTED]",
    ),
    (
        "AKIAIOSFODNN7EXAMPLE ASIAIOSFODNN7EXAMPLE",
        "[REDACTED] [REDACTED]",
    ),
    ("eyJhbGciOi.eyJzdWIi.s-g_ end", "[REDACTED] end"),
    (
        "sk_live_abc xoxb-1-a xapp-1-a glpat-0123456789",
        "[REDACTED] [REDACTED] [REDACTED] [REDACTED]",
    ),
    (
        "npm_abcdefghijklmnopqrstu hf_abcdefghijklmnopqrstu",
        "[REDACTED] [REDACTED]",
    ),
    (
        "AIzaSyA0123456789012345678901234567890 ya29.a0Ab_cdefghij",
        "[REDACTED] [REDACTED]",
    ),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest",
        "[REDACTED]\nrest",
    ),
    ("-----BEGIN PRIVATE KEY-----\ncut off", "[REDACTED]"),
    // What has to stay readable.
    ("nothing to see: 401", "nothing to see: 401"),
    ("exit code=1, status_code=401", "exit code=1, status_code=401"),
    (
        "a keyboard, a tokenizer and a task-list",
        "a keyboard, a tokenizer and a task-list",
    ),
    (
        r#"{"key": "PROJ-1", "max_tokens": 5}"#,
        r#"{"key": "PROJ-1", "max_tokens": 5}"#,
    ),
    ("invalid token: expired", "invalid token: expired"),
    (
        "GET /issues?state=open http://host:80/x@y",
        "GET /issues?state=open http://host:80/x@y",
    ),
    ("it laughs_at the authors", "it laughs_at the authors"),
    ("ssh://git@host/repo", "ssh://git@host/repo"),
];

#[test]
fn what_looks_like_a_secret_goes_and_the_rest_stays() {
    let redactor = Redactor::default();
    for (text, expected) in BY_PATTERN {
        assert_eq!(redactor.redact(text), *expected, "{text}");
        assert_eq!(
            redactor.redact(expected),
            *expected,
            "twice is as good as once: {text}"
        );
    }
}

#[test]
fn configured_values_go_in_every_form() {
    let redactor = Redactor::new([
        "plain-secret-77",
        "a b/c\"d",
        "short",
        "plain-secret-77-longer",
        "  ",
    ]);
    for (text, expected) in [
        ("TOK is plain-secret-77", "TOK is [REDACTED]"),
        ("plain-secret-77-longer", "[REDACTED]"),
        ("cGxhaW4tc2VjcmV0LTc3", "[REDACTED]"),
        (
            "a%20b%2Fc%22d a%20b%2fc%22d a+b%2Fc%22d",
            "[REDACTED] [REDACTED] [REDACTED]",
        ),
        (r#"in json: "a b/c\"d""#, r#"in json: "[REDACTED]""#),
        ("short stays", "short stays"),
    ] {
        assert_eq!(redactor.redact(text), expected, "{text}");
    }
}

#[test]
fn a_value_is_found_inside_of_base64_at_every_alignment() {
    let redactor = Redactor::new(["plain-secret-77"]);
    for before in ["", "u", "us", "use", "user:"] {
        let text = general_purpose::STANDARD.encode(format!("{before}plain-secret-77:after"));
        let shown = redactor.redact(&text);
        assert!(shown.contains(REDACTED), "{before}: {text} -> {shown}");
        let kept = shown.replace(REDACTED, "").len();
        assert!(kept <= text.len() - 18, "{before}: {text} -> {shown}");
    }
}

#[test]
fn a_key_of_several_lines_goes_line_by_line_too() {
    let key = "first line of a key\nsecond line of a key\nend";
    let redactor = Redactor::new([key]);
    assert_eq!(redactor.redact(&format!("x {key}")), "x [REDACTED]");
    assert_eq!(
        redactor.redact("stderr: second line of a key"),
        "stderr: [REDACTED]"
    );
    assert_eq!(
        redactor.redact(r"first line of a key\nsecond line of a key\nend"),
        "[REDACTED]"
    );
    assert_eq!(redactor.redact("the end"), "the end");
}

#[test]
fn a_value_that_is_part_of_the_replacement_is_no_value() {
    let redactor = Redactor::new(["REDACTED", "DACTED]"]);
    assert_eq!(redactor.redact("REDACTED token=a"), "REDACTED token=[REDACTED]");
}

#[test]
fn nothing_found_is_nothing_copied() {
    let redactor = Redactor::new(["plain-secret-77"]);
    for text in ["all is well", "the key to all", "", "é 日本 ?"] {
        assert!(matches!(redactor.redact(text), Cow::Borrowed(_)), "{text}");
    }
}

#[test]
fn debug_shows_no_value() {
    let shown = format!("{:?}", Redactor::new(["plain-secret-77"]));
    assert!(
        !shown.contains("plain") && shown.starts_with("Redactor"),
        "{shown}"
    );
}

proptest::proptest! {
    #[test]
    fn once_is_enough_and_no_value_survives(
        parts in proptest::collection::vec(
            "[a-z =:\"&?_\\\\'@/.-]{0,8}|token=|\"secret\": \"|Bearer |sk-|plain-secret-77|://u:|ghp_|--key |Cookie: |\\\\\"",
            0..12,
        ),
    ) {
        let text = parts.concat();
        let redactor = Redactor::new(["plain-secret-77"]);
        let once = redactor.redact(&text).into_owned();
        proptest::prop_assert_eq!(redactor.redact(&once), once.as_str(), "{}", text);
        proptest::prop_assert!(!once.contains("plain-secret-77"));
    }

    #[test]
    fn no_value_survives_whatever_it_is(secret in "\\PC{6,20}", text in "\\PC{0,40}") {
        let redactor = Redactor::new([&secret]);
        let shown = redactor.redact(&format!("{text}{secret}")).into_owned();
        let secret = secret.trim();
        let is_known = secret.chars().count() >= SHORTEST && !REDACTED.contains(secret);
        proptest::prop_assert!(!is_known || !shown.contains(secret), "{}", shown);
    }
}
