//! The rooms of `src/` point one way, only `src/python` knows pyo3, and no file outgrows its reader.
//!
//! The check reads tokens, not text: comments, strings and look-alike names do not count, and it follows `crate::`,
//! `super::` and grouped `use` trees down to the room they end in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room may use those of the steps before its own, never a sibling on its step.
const STEPS: &[&[&str]] = &[
    &["error"],
    &["int"],
    &["isa", "cursor"],
    &["thrift", "arrow", "crypto"],
    &["hash"],
    &["bloom", "sieve", "predicate"],
    &["parquet"],
    &["prune", "shelf"],
    &["python"],
];

/// Lines of a source file with its tests; past it, two rooms are clearer.
const MAX_LINES: usize = 500;

#[test]
fn rooms_use_only_rooms_before_them() {
    let found: Vec<String> = sources().iter().flat_map(|file| forward_uses(&file.path, &file.text)).collect();
    assert!(found.is_empty(), "the order of rooms is broken:\n{}", found.join("\n"));
}

#[test]
fn every_room_has_its_place_in_the_order() {
    let rooms: BTreeSet<String> = sources().iter().filter_map(|file| room_of(&file.path).map(str::to_owned)).collect();
    let unplaced: Vec<&String> = rooms.iter().filter(|room| step_of(room).is_none()).collect();
    assert!(unplaced.is_empty(), "name these in STEPS of tests/rust/layers.rs: {unplaced:?}");
    assert!(rooms.contains("error"), "src/ was read");
}

#[test]
fn only_the_python_room_names_pyo3() {
    let found: Vec<String> = sources().iter().flat_map(|file| foreign_pyo3(&file.path, &file.text)).collect();
    assert!(found.is_empty(), "pyo3 belongs into src/python:\n{}", found.join("\n"));
}

#[test]
fn files_stay_within_their_budget() {
    let found: Vec<String> = sources().iter().filter_map(|file| too_long(&file.path, &file.text)).collect();
    assert!(found.is_empty(), "split these:\n{}", found.join("\n"));
}

struct Source {
    /// Below `src/`, with forward slashes.
    path: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of src/") {
            let path: PathBuf = entry.expect("an entry of src/").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&root).expect("below src/").to_str().expect("a UTF-8 name");
                let text = fs::read_to_string(&path).expect("a UTF-8 source file");
                files.push(Source { path: below.replace('\\', "/"), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn step_of(room: &str) -> Option<usize> {
    STEPS.iter().position(|step| step.contains(&room))
}

/// `bloom` for `bloom/block.rs`, `isa` for `isa.rs`, nothing for `lib.rs`, which lists all rooms.
fn room_of(path: &str) -> Option<&str> {
    let first = path.split('/').next().expect("split gives at least one part");
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (room != "lib").then_some(room)
}

/// Modules between the crate's root and the file: 1 for `isa.rs` and `bloom/mod.rs`, 2 for `bloom/block.rs`.
fn depth_of(path: &str) -> usize {
    path.split('/').filter(|part| *part != "mod.rs").count()
}

fn forward_uses(path: &str, text: &str) -> Vec<String> {
    let Some(room) = room_of(path) else { return Vec::new() };
    let Some(own) = step_of(room) else { return Vec::new() };
    let mut found = Vec::new();
    for (line, used) in uses(text, depth_of(path)) {
        match step_of(&used) {
            _ if used == room => {}
            Some(step) if step < own => {}
            Some(step) if step == own => found.push(format!("src/{path}:{line}: {room} uses its sibling {used}")),
            Some(_) => found.push(format!("src/{path}:{line}: {room} uses {used}, which comes later")),
            // A name re-exported by lib.rs would hide which room it comes from.
            None => found.push(format!("src/{path}:{line}: crate::{used} is no room; name the room it lives in")),
        }
    }
    found
}

fn foreign_pyo3(path: &str, text: &str) -> Vec<String> {
    if room_of(path) == Some("python") {
        return Vec::new();
    }
    let tokens = tokens(text);
    let names = tokens.iter().filter(|token| token.text == "pyo3" || token.text.starts_with("pyo3_"));
    names.map(|token| format!("src/{path}:{}: {}", token.line, token.text)).collect()
}

fn too_long(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MAX_LINES).then(|| format!("src/{path}: {lines} lines, at most {MAX_LINES}"))
}

/// The first name below the crate's root of every path that starts there, with its line.
fn uses(text: &str, file_depth: usize) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    // Braces that are open; true for those of an inline module, which is one `super` deeper.
    let mut braces: Vec<bool> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let starts_path = at == 0 || tokens[at - 1].text != "::";
        match token.text.as_str() {
            "{" => braces.push(at >= 2 && tokens[at - 2].text == "mod"),
            "}" => drop(braces.pop()),
            "crate" if starts_path => names_below(&tokens, at + 1, 0, &mut found),
            "super" if starts_path => {
                let depth = file_depth + braces.iter().filter(|is_module| **is_module).count();
                names_below(&tokens, at + 1, depth.saturating_sub(1), &mut found);
            }
            _ => {}
        }
    }
    found
}

/// Follows a path that stands `depth` modules below the root, its next token being `::`, through groups and further `super`s.
fn names_below(tokens: &[Token], at: usize, depth: usize, found: &mut Vec<(usize, String)>) {
    if tokens.get(at).is_none_or(|token| token.text != "::") {
        return;
    }
    let Some(next) = tokens.get(at + 1) else { return };
    match next.text.as_str() {
        "super" => names_below(tokens, at + 2, depth.saturating_sub(1), found),
        "{" => {
            let mut open = 0;
            for (inner, token) in tokens.iter().enumerate().skip(at + 1) {
                let starts_tree = open == 1 && matches!(tokens[inner - 1].text.as_str(), "{" | ",");
                match token.text.as_str() {
                    "{" => open += 1,
                    "}" => open -= 1,
                    "super" if starts_tree => names_below(tokens, inner + 1, depth.saturating_sub(1), found),
                    "self" => {}
                    name if starts_tree && depth == 0 => found.push((token.line, name.to_owned())),
                    _ => {}
                }
                if open == 0 {
                    return;
                }
            }
        }
        name if depth == 0 => found.push((next.line, name.to_owned())),
        _ => {}
    }
}

struct Token {
    line: usize,
    text: String,
}

/// Names, `::` and single signs of Rust source, without comments, strings, characters and lifetimes.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let length = match bytes[at] {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => block_comment(rest),
            b'"' => quoted(rest),
            b'\'' => character_or_lifetime(rest),
            first if first.is_ascii_alphabetic() || first == b'_' => {
                let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                match (&rest[..name], &rest[name..]) {
                    // Raw and byte strings; `r#name` is a raw identifier.
                    ("r" | "br" | "cr", after) if raw_string(after).is_some() => name + raw_string(after).unwrap_or(0),
                    ("b" | "c", after) if after.starts_with('"') => name + quoted(after),
                    _ => {
                        tokens.push(Token { line: line_at(text, at), text: rest[..name].to_owned() });
                        name
                    }
                }
            }
            _ if rest.starts_with("::") => {
                tokens.push(Token { line: line_at(text, at), text: "::".to_owned() });
                2
            }
            first => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                if !first.is_ascii_whitespace() {
                    tokens.push(Token { line: line_at(text, at), text: rest[..length].to_owned() });
                }
                length
            }
        };
        at += length;
    }
    tokens
}

fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn block_comment(rest: &str) -> usize {
    let (mut open, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (open, at) = (open + 1, at + 2),
            [b'*', b'/', ..] => (open, at) = (open - 1, at + 2),
            _ => at += 1,
        }
        if open == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of `#"…"#` with as many hashes on both sides, if `after` begins so.
fn raw_string(after: &str) -> Option<usize> {
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = after[hashes..].strip_prefix('"')?;
    Some(body.find(&end).map_or(after.len(), |close| hashes + 1 + close + end.len()))
}

fn character_or_lifetime(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            rest[escaped + 1..].find('\'').map_or(rest.len(), |close| escaped + 1 + close + 1)
        }
        (Some(_), Some((close, '\''))) => close + 1,
        // A lifetime: only its tick is passed over, its name becomes a harmless token.
        _ => 1,
    }
}

mod the_check_can_fail {
    use super::*;

    fn check_forward(path: &str, text: &str, expect: &[&str]) {
        let found: Vec<String> = forward_uses(path, text);
        let used: Vec<&str> =
            found.iter().map(|line| line.split_once(": ").map_or(line.as_str(), |(_, what)| what)).collect();
        assert_eq!(used, expect, "{text}");
    }

    #[test]
    fn a_use_of_an_earlier_room_or_of_the_own_one_is_fine() {
        check_forward("bloom/header.rs", "use crate::thrift::Reader;", &[]);
        check_forward("bloom/fold.rs", "use crate::bloom::sizing::x; use super::block::Block;", &[]);
        check_forward("cursor.rs", "use crate::error::Error; use crate::int::to_u64;", &[]);
        check_forward("python/mod.rs", "use crate::{prune, bloom::{self, Sbbf}}; use super::sieve;", &[]);
        check_forward("lib.rs", "pub use crate::prune::Verdict;", &[]);
    }

    #[test]
    fn a_later_room_is_found_wherever_it_is_named() {
        let later = ["hash uses prune, which comes later"];
        check_forward("hash/xxh64.rs", "use crate::prune::Verdict;", &later);
        check_forward("hash.rs", "pub(crate) use crate::prune as p;", &later);
        check_forward("hash/mod.rs", "fn f() -> crate::prune::Verdict { todo() }", &later);
        check_forward("hash/mod.rs", "macro_rules! m { () => { $crate::prune::Verdict } }", &later);
        check_forward("hash/mod.rs", "use crate::{error::{Error, Result}, prune::{Verdict}};", &later);
        check_forward("hash/mod.rs", "use crate :: { prune };", &later);
    }

    #[test]
    fn super_is_followed_to_the_root() {
        let later = ["hash uses prune, which comes later"];
        check_forward("hash/mod.rs", "use super::prune::Verdict;", &later);
        check_forward("hash/plain.rs", "use super::super::prune::Verdict;", &later);
        check_forward("hash/plain.rs", "use super::{prune, super::prune::Verdict};", &later);
        check_forward("hash.rs", "mod tests { use super::super::prune::Verdict; }", &later);
        check_forward("hash/plain.rs", "mod tests { use super::super::prune::Verdict; }", &[]);
        check_forward("hash/plain.rs", "use super::prune;", &[]);
    }

    #[test]
    fn siblings_do_not_use_each_other() {
        check_forward("thrift/reader.rs", "use crate::arrow::Column;", &["thrift uses its sibling arrow"]);
        check_forward("isa.rs", "use crate::cursor::Cursor;", &["isa uses its sibling cursor"]);
        check_forward("error.rs", "use crate::int::to_u64;", &["error uses int, which comes later"]);
    }

    #[test]
    fn a_name_of_the_root_must_say_its_room() {
        let said = ["crate::Error is no room; name the room it lives in"];
        check_forward("hash/mod.rs", "use crate::Error;", &said);
        check_forward("hash/mod.rs", "use super::Error;", &said);
    }

    #[test]
    fn comments_strings_and_look_alikes_do_not_count() {
        for text in [
            "// use crate::prune::Verdict;",
            "/* /* crate::prune */ use crate::prune; */",
            "/// See [`crate::prune`].\nfn f() {}",
            r#"const S: &str = "crate::prune \" crate::prune";"#,
            r###"const S: &str = r#"crate::prune " crate::prune"#;"###,
            r#"const S: &[u8] = b"crate::prune";"#,
            r"const C: [char; 3] = ['\'', '\u{22}', '{'];",
            "use other::crate_like::prune; use my::prune;",
        ] {
            check_forward("hash/mod.rs", text, &[]);
        }
        let after = r#"const C: char = '"'; fn f<'a>(x: &'a str) {} use crate::prune; const D: char = '"';"#;
        check_forward("hash/mod.rs", after, &["hash uses prune, which comes later"]);
    }

    #[test]
    fn the_line_is_that_of_the_name() {
        let found = forward_uses("hash/mod.rs", "use crate::error::Error;\n\nuse crate::{\n    prune,\n};\n");
        assert_eq!(found, ["src/hash/mod.rs:4: hash uses prune, which comes later"]);
    }

    #[test]
    fn pyo3_is_found_outside_its_room() {
        assert_eq!(foreign_pyo3("bloom/sbbf.rs", "#[pyo3::pyclass]\nstruct S;"), ["src/bloom/sbbf.rs:1: pyo3"]);
        assert_eq!(foreign_pyo3("lib.rs", "\nuse pyo3_arrow::PyArray;"), ["src/lib.rs:2: pyo3_arrow"]);
        assert!(foreign_pyo3("python/bloom.rs", "use pyo3::prelude::*;").is_empty());
        assert!(foreign_pyo3("error.rs", "// pyo3 maps these\nconst S: &str = \"pyo3\";").is_empty());
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(too_long("a.rs", &"\n".repeat(MAX_LINES)), None);
        let said = too_long("a.rs", &"\n".repeat(MAX_LINES + 1));
        assert_eq!(said.as_deref(), Some("src/a.rs: 501 lines, at most 500"));
    }
}
