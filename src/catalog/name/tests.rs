use super::*;

const FORMAT: &str = "mcp_{server}_{tool}";

type Tool<'a> = (&'a str, &'a str, bool);

fn assigned(tools: &[Tool<'_>], format: &str, contested: &mut Contested) -> Vec<Assigned> {
    let parts: Vec<Parts<'_>> = tools
        .iter()
        .map(|(server, tool, is_utility)| Parts {
            server,
            tool,
            is_utility: *is_utility,
        })
        .collect();
    assign(&parts, format, contested)
}

fn names(tools: &[Tool<'_>], format: &str) -> Vec<String> {
    assigned(tools, format, &mut Contested::new())
        .into_iter()
        .map(|assigned| assigned.name.to_string())
        .collect()
}

/// The first 8 digits of SHA-256 over server, NUL, tool.
fn digits(server: &str, tool: &str) -> String {
    let hash = Sha256::digest(format!("{server}\0{tool}"));
    hash[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_documented_examples() {
    for (server, tool, expected) in [
        ("filesystem", "read_file", "mcp_filesystem_read_file"),
        ("github", "list-issues", "mcp_github_list_issues"),
        ("my-api", "fetch.data", "mcp_my_api_fetch_data"),
        ("x", "é", "mcp_x__"),
        ("x", "{server}", "mcp_x__server_"),
        ("", "y", "mcp__y"),
    ] {
        assert_eq!(names(&[(server, tool, false)], FORMAT), [expected]);
    }
    assert_eq!(
        names(&[("my-api.v2", "read.file", false)], "mcp__{server}__{tool}"),
        ["mcp__my_api_v2__read_file"],
        "conformance 2"
    );
    assert_eq!(names(&[("a", "b", false)], "é-{server}.{tool}"), ["__a_b"]);
}

/// TOOL-04, conformance 59: inside a server, between servers, and where the border is unclear.
#[test]
fn a_name_that_several_want_belongs_to_none() {
    for rivals in [
        [("s", "a-b"), ("s", "a_b")],
        [("a-b", "x"), ("a_b", "x")],
        [("x_y", "z"), ("x", "y_z")],
    ] {
        let tools = rivals.map(|(server, tool)| (server, tool, false));
        let mut contested = Contested::new();
        let got = assigned(&tools, FORMAT, &mut contested);
        for (got, (server, tool)) in got.iter().zip(rivals) {
            let plain = format!("mcp_{}_{}", mapped(server), mapped(tool));
            assert_eq!(got.name.as_str(), format!("{plain}_{}", digits(server, tool)));
            let note = got.note.as_deref().unwrap();
            assert!(note.contains(server) && note.contains(&plain), "{note}");
        }
    }
}

#[test]
fn a_utility_gives_way_to_a_native_tool_of_any_server() {
    let tools = [
        ("s", "read_resource", true),
        ("s", "read_resource", false),
        ("a_b", "list_prompts", true),
        ("a", "b_list_prompts", false),
        ("u-u", "get_prompt", true),
        ("u_u", "get_prompt", true),
    ];
    let got = names(&tools, FORMAT);
    assert_eq!(
        got[0],
        format!("mcp_s_read_resource_{}", digits("s", "read_resource"))
    );
    assert_eq!(got[1], "mcp_s_read_resource");
    assert_eq!(
        got[2],
        format!("mcp_a_b_list_prompts_{}", digits("a_b", "list_prompts"))
    );
    assert_eq!(got[3], "mcp_a_b_list_prompts");
    assert!(
        got[4] != got[5] && got[4].len() == got[5].len() && got[4] != "mcp_u_u_get_prompt",
        "{got:?}"
    );
}

/// A rival's reconnects rename nothing, and never does one tool's name become another's.
#[test]
fn once_contested_a_name_stays_so_while_it_is_wanted() {
    let mut contested = Contested::new();
    let (mine, rival) = (("a-b", "x", false), ("a_b", "x", false));
    let mut name_of =
        |tools: &[Tool<'_>], n: usize| assigned(tools, FORMAT, &mut contested)[n].name.to_string();
    assert_eq!(name_of(&[mine], 0), "mcp_a_b_x");
    let with_digits = name_of(&[mine, rival], 0);
    assert_ne!(with_digits, "mcp_a_b_x");
    assert_eq!(name_of(&[mine], 0), with_digits);
    assert_eq!(name_of(&[rival, mine], 1), with_digits);
    let other = ("c", "y", false);
    assert_eq!(name_of(&[other], 0), "mcp_c_y");
    assert_eq!(name_of(&[mine], 0), "mcp_a_b_x", "nobody wanted it in between");
}

#[test]
fn long_names_are_cut_with_a_hash() {
    let long = "t".repeat(92);
    let got = names(&[("s", &long, false)], FORMAT);
    assert_eq!(got[0].len(), 64, "conformance 65");
    assert_eq!(got[0], format!("mcp_s_{}_{}", "t".repeat(49), digits("s", &long)));
    let exact = "t".repeat(64 - "mcp_s_".len());
    assert_eq!(names(&[("s", &exact, false)], FORMAT), [format!("mcp_s_{exact}")]);
}

/// Who wants exactly the name that another gets with digits, gets it; the other goes on looking.
#[test]
fn a_name_with_digits_is_taken_from_nobody() {
    let hijack = format!("a_b_{}", digits("s", "a-b"));
    let tools = [
        ("s", "a-b", false),
        ("s", "a_b", false),
        ("s", hijack.as_str(), false),
    ];
    let got = names(&tools, FORMAT);
    assert_eq!(got[2], format!("mcp_s_{hijack}"));
    assert_eq!(got.iter().collect::<HashSet<_>>().len(), 3, "{got:?}");
}

proptest::proptest! {
    #[test]
    fn names_are_valid_different_and_independent_of_order(
        tools in proptest::collection::btree_set(
            ("[a._-]{1,3}|é|s{70}", "[a._-]{1,3}|[a-z]{60,80}|list_prompts", proptest::bool::ANY),
            1..24,
        ),
        seed in proptest::prelude::any::<u64>(),
        before in 0..24usize,
    ) {
        let tools: Vec<Tool<'_>> = tools.iter().map(|(s, t, u)| (s.as_str(), t.as_str(), *u)).collect();
        let got = names(&tools, FORMAT);
        let different: HashSet<&String> = got.iter().collect();
        proptest::prop_assert_eq!(different.len(), tools.len(), "injective: {:?}", got);
        for name in &got {
            proptest::prop_assert!(!name.is_empty() && name.len() <= LONGEST && mapped(name) == *name, "{}", name);
        }
        let mut order: Vec<usize> = (0..tools.len()).collect();
        order.sort_by_key(|n| (*n as u64 + 1).wrapping_mul(seed | 1).rotate_left(17));
        let shuffled: Vec<_> = order.iter().map(|n| tools[*n]).collect();
        for (name, n) in names(&shuffled, FORMAT).iter().zip(&order) {
            proptest::prop_assert_eq!(name, &got[*n]);
        }
        // Whatever connected first, and in which steps: with all there, the names are the same.
        let mut contested = Contested::new();
        assigned(&shuffled[..before.min(shuffled.len())], FORMAT, &mut contested);
        let later: Vec<String> = assigned(&tools, FORMAT, &mut contested).iter().map(|a| a.name.to_string()).collect();
        proptest::prop_assert_eq!(later, got);
    }
}
