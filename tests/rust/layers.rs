//! Checks the dependencies between the folders of `src/`, that only `src/python` uses pyo3, and the size of files and
//! folders.
//!
//! Files are parsed with `syn`. Every path that starts with `crate` or `super` is resolved to the module it names, in
//! `use` items, expressions, types and macros.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The modules of `src/` in steps. A module may use modules of earlier steps, but not of its own step.
const CRATE: &[&[&str]] = &[
    &["error"],
    &["int"],
    &["isa", "cursor", "ranges", "json"],
    &["varint"],
    &["thrift", "arrow", "avro", "delta", "crypto"],
    &["hash"],
    &["bloom", "sieve", "value_set"],
    &["bloom_index", "parquet"],
    &["page_map"],
    &["rows"],
    &["python"],
];

/// The folders of `src/parquet` and `src/sieve` in steps. Tests may use all folders of their own module.
const PARQUET: &[&[&str]] = &[&["meta"], &["open"], &["filter", "pages"]];
const SIEVE: &[&[&str]] =
    &[&["code"], &["key"], &["record"], &["segment"], &["unit"], &["index"], &["build"], &["version"]];

/// Maximum number of lines in a source file, including its tests.
const MAX_LINES: usize = 500;
/// Maximum number of source files in a folder, without `mod.rs`.
const MAX_FILES: usize = 12;

#[test]
fn modules_use_only_earlier_modules() {
    let violations: Vec<String> = sources().iter().flat_map(|file| violations(&file.path, &file.text)).collect();
    assert!(violations.is_empty(), "these uses break the order of modules:\n{}", violations.join("\n"));
}

#[test]
fn the_order_lists_exactly_the_existing_modules() {
    let files = sources();
    let paths: Vec<Vec<String>> = files.iter().map(|file| module_path(&file.path)).collect();
    let below = |parent: &[&str]| -> BTreeSet<&str> {
        let inside =
            paths.iter().filter(|path| path.len() > parent.len() && path.iter().zip(parent).all(|(a, b)| a == b));
        inside.map(|path| path[parent.len()].as_str()).collect()
    };
    let named = |steps: &[&[&'static str]]| -> BTreeSet<&str> { steps.iter().copied().flatten().copied().collect() };
    assert_eq!(below(&[]), named(CRATE));
    assert_eq!(&below(&["parquet"]) - &BTreeSet::from(["fixtures"]), named(PARQUET));
    assert_eq!(&below(&["sieve"]) - &BTreeSet::from(["tests"]), named(SIEVE));
}

#[test]
fn only_the_python_module_uses_pyo3() {
    let uses: Vec<String> = sources().iter().flat_map(|file| foreign_pyo3(&file.path, &file.text)).collect();
    assert!(uses.is_empty(), "pyo3 belongs in src/python:\n{}", uses.join("\n"));
}

#[test]
fn files_and_folders_stay_small() {
    let files = sources();
    let long = files.iter().filter(|file| file.text.lines().count() > MAX_LINES).map(|file| file.path.clone());
    let mut folders: Vec<&str> = files.iter().filter_map(|file| Some(file.path.rsplit_once('/')?.0)).collect();
    folders.dedup();
    let crowded = folders.into_iter().filter(|folder| {
        let inside = files.iter().filter_map(|file| file.path.rsplit_once('/')).filter(|(parent, _)| parent == folder);
        inside.filter(|(_, name)| *name != "mod.rs" && !name.ends_with("_tests.rs")).count() > MAX_FILES
    });
    let oversized: Vec<String> = long.chain(crowded.map(str::to_owned)).collect();
    assert!(
        oversized.is_empty(),
        "split these (over {MAX_LINES} lines, or over {MAX_FILES} files):\n{}",
        oversized.join("\n")
    );
}

struct Source {
    /// The path relative to `src/`, with forward slashes.
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
    assert!(!files.is_empty(), "src/ has source files");
    files
}

/// Returns the module of a file: `["bloom", "block"]` for `bloom/block.rs`, `["bloom"]` for `bloom/mod.rs`, `[]` for
/// `lib.rs`.
fn module_path(path: &str) -> Vec<String> {
    let parts = path.trim_end_matches(".rs").split('/').filter(|part| !matches!(*part, "mod" | "lib"));
    parts.map(str::to_owned).collect()
}

/// A path that starts at the crate root.
struct Use {
    line: usize,
    path: Vec<String>,
    in_test: bool,
}

/// Collects the paths that a file uses.
struct Uses {
    /// The module that is being visited.
    module: Vec<String>,
    in_test: bool,
    paths: Vec<Use>,
}

impl Uses {
    fn of(path: &str, text: &str) -> Vec<Use> {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("src/{path}: {error}"));
        let mut uses = Self { module: module_path(path), in_test: false, paths: Vec::new() };
        uses.visit_file(&file);
        uses.paths
    }

    /// Records a path if it starts with `crate` or `super`.
    fn record(&mut self, segments: &[String], span: Span) {
        let mut path = match segments.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super") => self.module.clone(),
            _ => return,
        };
        let supers = segments.iter().take_while(|segment| *segment == "super").count();
        path.truncate(path.len().saturating_sub(supers));
        path.extend(segments.iter().skip(supers.max(1)).cloned());
        self.paths.push(Use { line: span.start().line, path, in_test: self.in_test });
    }

    fn record_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let joined = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.record_tree(&joined(&path.ident), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.record_tree(prefix, item)),
            syn::UseTree::Name(name) if name.ident == "self" => self.record(prefix, name.ident.span()),
            syn::UseTree::Name(name) => self.record(&joined(&name.ident), name.ident.span()),
            syn::UseTree::Rename(name) => self.record(&joined(&name.ident), name.ident.span()),
            syn::UseTree::Glob(glob) => self.record(prefix, glob.span()),
        }
    }

    /// Records the paths in the tokens of a macro, for which there is no syntax tree.
    fn record_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let name_at = |at: usize| match tokens.get(at) {
            Some(TokenTree::Ident(name)) => Some(name.to_string()),
            _ => None,
        };
        let colon_at = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(sign)) if sign.as_char() == ':');
        for (at, token) in tokens.iter().enumerate() {
            if let TokenTree::Group(group) = token {
                self.record_tokens(group.stream());
            }
            let Some(first) = name_at(at).filter(|name| name == "crate") else { continue };
            let mut segments = vec![first];
            let mut next = at + 1;
            while colon_at(next) && colon_at(next + 1) {
                let Some(name) = name_at(next + 2) else { break };
                segments.push(name);
                next += 3;
            }
            self.record(&segments, token.span());
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.record_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.record(&segments, path.span());
        visit::visit_path(self, path);
    }

    // `pub(in crate::sieve)` restricts the visibility, but does not use the module.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.record_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outside = self.in_test;
        self.in_test |= item.attrs.iter().any(|attribute| match &attribute.meta {
            syn::Meta::List(list) => {
                list.path.is_ident("cfg") && names(list.tokens.clone()).any(|(_, name)| name == "test")
            }
            _ => false,
        });
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
        self.in_test = outside;
    }
}

fn violations(path: &str, text: &str) -> Vec<String> {
    let own = module_path(path);
    let uses = Uses::of(path, text);
    let is_test_file = path.ends_with("_tests.rs") || path.contains("/tests/") || path.ends_with("fixtures.rs");
    let mut violations = Vec::new();
    for used in &uses {
        let mut check = |steps: &[&[&str]], depth: usize| {
            let (Some(from), Some(to)) = (own.get(depth), used.path.get(depth)) else { return };
            if let Some(problem) = problem(steps, from, to) {
                violations.push(format!("src/{path}:{}: {problem}", used.line));
            }
        };
        check(CRATE, 0);
        if is_test_file || used.in_test || own.first() != used.path.first() {
            continue;
        }
        match own.first().map(String::as_str) {
            Some("parquet") => check(PARQUET, 1),
            Some("sieve") => check(SIEVE, 1),
            _ => {}
        }
    }
    violations
}

fn problem(steps: &[&[&str]], from: &str, to: &str) -> Option<String> {
    let step_of = |name: &str| steps.iter().position(|step| step.contains(&name));
    match (step_of(from)?, step_of(to)) {
        _ if from == to => None,
        (own, Some(step)) if step < own => None,
        (own, Some(step)) if step == own => Some(format!("{from} uses its sibling {to}")),
        (_, Some(_)) => Some(format!("{from} uses {to}, which comes later")),
        // A re-exported name hides the module that defines it.
        (_, None) => Some(format!("{to} is a re-export; name the module that defines it")),
    }
}

fn foreign_pyo3(path: &str, text: &str) -> Vec<String> {
    if path.starts_with("python/") {
        return Vec::new();
    }
    let pyo3_names =
        names(text.parse().expect("Rust tokens")).filter(|(_, name)| name == "pyo3" || name.starts_with("pyo3_"));
    pyo3_names.map(|(line, name)| format!("src/{path}:{line}: {name}")).collect()
}

/// Returns the names in some tokens, with their lines.
fn names(tokens: TokenStream) -> Box<dyn Iterator<Item = (usize, String)>> {
    Box::new(tokens.into_iter().flat_map(|token| match token {
        TokenTree::Group(group) => names(group.stream()),
        TokenTree::Ident(name) => Box::new(std::iter::once((name.span().start().line, name.to_string()))),
        _ => Box::new(std::iter::empty()) as Box<dyn Iterator<Item = _>>,
    }))
}

mod tests_of_these_tests {
    use super::*;

    fn check(path: &str, text: &str, expect: &[&str]) {
        let violations = violations(path, text);
        let problems: Vec<&str> =
            violations.iter().map(|line| line.split_once(": ").map_or(line.as_str(), |(_, problem)| problem)).collect();
        assert_eq!(problems, expect, "{text}");
    }

    #[test]
    fn earlier_modules_may_be_used() {
        check("bloom/header.rs", "use crate::thrift::Reader;", &[]);
        check("bloom/fold.rs", "use crate::bloom::sizing::x; use super::block::Block;", &[]);
        check("cursor.rs", "use crate::error::Error; use crate::int::to_u64;", &[]);
        check("python/mod.rs", "use crate::{parquet, bloom::{self, Sbbf}}; use super::sieve;", &[]);
        check("lib.rs", "pub use crate::parquet::SchemaLeaf;", &[]);
        check("sieve/segment/write.rs", "use crate::sieve::key::axis::Key;", &[]);
        check("sieve/key/axis.rs", "#[cfg(test)] mod tests { use crate::sieve::Builder; }", &[]);
    }

    #[test]
    fn uses_of_later_modules_are_reported_in_any_syntax() {
        let later = ["hash uses parquet, which comes later"];
        check("hash/xxh64.rs", "use crate::parquet::SchemaLeaf;", &later);
        check("hash.rs", "pub(crate) use crate::parquet as p;", &later);
        check("hash/mod.rs", "fn f() -> crate::parquet::SchemaLeaf { todo() }", &later);
        check("hash/mod.rs", "macro_rules! m { () => { $crate::parquet::SchemaLeaf } }", &later);
        check("hash/mod.rs", "fn f() { vec![crate::parquet::SchemaLeaf] }", &later);
        check("hash/mod.rs", "use crate::{error::{Error, Result}, parquet::{Leaf}};", &later);
        check("hash/plain.rs", "use super::super::parquet::Leaf;", &later);
        check("hash/plain.rs", "mod inner { use super::super::super::parquet::Leaf; }", &later);
        check("sieve/key/axis.rs", "use crate::sieve::index::root;", &["key uses index, which comes later"]);
        check(
            "sieve/key/axis.rs",
            "use crate::sieve::Builder;",
            &["Builder is a re-export; name the module that defines it"],
        );
    }

    #[test]
    fn uses_of_siblings_and_root_reexports_are_reported() {
        check("thrift/reader.rs", "use crate::arrow::Column;", &["thrift uses its sibling arrow"]);
        check("hash/mod.rs", "use crate::Error;", &["Error is a re-export; name the module that defines it"]);
    }

    #[test]
    fn comments_strings_and_other_crates_do_not_count() {
        let text = r#"
            // use crate::parquet::SchemaLeaf;
            /// See [`crate::parquet`].
            const S: &str = "crate::parquet";
            use other::parquet;
        "#;
        check("hash/mod.rs", text, &[]);
    }

    #[test]
    fn violations_include_the_line_number() {
        let violations = violations("hash/mod.rs", "use crate::error::Error;\n\nuse crate::{\n    parquet,\n};\n");
        assert_eq!(violations, ["src/hash/mod.rs:4: hash uses parquet, which comes later"]);
    }

    #[test]
    fn pyo3_outside_its_module_is_reported() {
        assert_eq!(foreign_pyo3("bloom/sbbf.rs", "#[pyo3::pyclass]\nstruct S;"), ["src/bloom/sbbf.rs:1: pyo3"]);
        assert_eq!(foreign_pyo3("lib.rs", "\nuse pyo3_arrow::PyArray;"), ["src/lib.rs:2: pyo3_arrow"]);
        assert!(foreign_pyo3("python/bloom.rs", "use pyo3::prelude::*;").is_empty());
        assert!(foreign_pyo3("error.rs", "// pyo3 maps these\nconst S: &str = \"pyo3\";").is_empty());
    }
}
