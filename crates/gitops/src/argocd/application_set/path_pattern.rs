//! Patterns of paths in two dialects: Go's `path.Match`, and git's pathspecs.
//!
//! Facts: of `path.Match`, `*` and `?` stop at `/` and brackets do not; a pattern that is broken matches nothing. Of a pathspec, they
//! all cross `/`, a path means all files below it, and `:(glob)`, `:(icase)`, `:(literal)`, `:(top)` and `:(exclude)` change that.

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Character(char),
    /// One character.
    Any {
        crosses: bool,
    },
    /// One of the ranges of characters, or none of them.
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
        crosses: bool,
    },
    /// Any characters.
    Star {
        crosses: bool,
    },
    /// Any number of folders, each with its `/`.
    Folders,
}

impl Token {
    /// Whether one character matches the part, which is not any number of characters.
    fn matches(&self, c: char, ignores_case: bool) -> bool {
        match self {
            Self::Character(own) if ignores_case => own.eq_ignore_ascii_case(&c),
            Self::Character(own) => *own == c,
            Self::Any { crosses } => *crosses || c != '/',
            Self::Class { ranges, is_negated, crosses } => {
                let has = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                let found =
                    has(c) || (ignores_case && (has(c.to_ascii_lowercase()) || has(c.to_ascii_uppercase())));
                (*crosses || c != '/') && found != *is_negated
            }
            Self::Star { .. } | Self::Folders => false,
        }
    }
}

/// A pattern of paths.
#[derive(Clone, Debug)]
pub(super) struct PathPattern {
    tokens: Vec<Token>,
    ignores_case: bool,
    /// A path that matches with all that is below it; also where the tokens do not match.
    literal: Option<String>,
    /// Whether it takes paths away from those that others of the same pattern select.
    pub(super) excludes: bool,
}

/// How a dialect reads brackets and stars.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    PathMatch,
    /// A pathspec in which nothing stops at `/`.
    Pathspec,
    /// A pathspec with `:(glob)`.
    PathspecGlob,
}

impl PathPattern {
    /// A pattern of `path.Match`; `None` if it is broken.
    pub(super) fn parse_path_match(pattern: &str) -> Option<Self> {
        Self::parse(pattern, Dialect::PathMatch)
    }

    /// A pathspec. The error says why git refuses it.
    pub(super) fn parse_pathspec(written: &str) -> Result<Self, String> {
        if written.is_empty() {
            return Err("an empty pattern is not a pathspec".to_owned());
        }
        let (magic, pattern) = PathspecMagic::read(written)?;
        let is_folder = pattern.ends_with('/');
        let mut path = federate_file_tree::normalize_path(pattern)
            .map_err(|_| format!("`{written}` is outside of the repository"))?;
        if is_folder && !path.is_empty() {
            path.push('/');
        }
        let dialect = if magic.is_glob { Dialect::PathspecGlob } else { Dialect::Pathspec };
        let globs = !magic.is_literal && path.contains(['*', '?', '[', '\\']);
        let tokens = if globs { Self::parse(&path, dialect).map(|pattern| pattern.tokens) } else { None };
        Ok(Self {
            // What matches nothing.
            tokens: tokens.unwrap_or_else(|| {
                vec![Token::Class { ranges: Vec::new(), is_negated: false, crosses: false }]
            }),
            ignores_case: magic.ignores_case,
            literal: Some(path),
            excludes: magic.excludes,
        })
    }

    fn parse(pattern: &str, dialect: Dialect) -> Option<Self> {
        let crosses = dialect == Dialect::Pathspec;
        let characters: Vec<char> = pattern.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(c) = characters.get(at) {
            at += 1;
            tokens.push(match c {
                '\\' => {
                    at += 1;
                    Token::Character(*characters.get(at - 1)?)
                }
                '?' => Token::Any { crosses },
                '[' => {
                    let (class, end) = read_class(&characters, at, dialect)?;
                    at = end;
                    class
                }
                '*' => {
                    let begins = at == 1 || characters.get(at.wrapping_sub(2)) == Some(&'/');
                    let start = at - 1;
                    while characters.get(at) == Some(&'*') {
                        at += 1;
                    }
                    let is_double = at - start >= 2;
                    let knows = dialect == Dialect::PathspecGlob;
                    match characters.get(at) {
                        Some('/') if knows && begins && is_double => {
                            at += 1;
                            Token::Folders
                        }
                        None if knows && begins && is_double => Token::Star { crosses: true },
                        _ => Token::Star { crosses },
                    }
                }
                c => Token::Character(*c),
            });
        }
        Some(Self { tokens, ignores_case: false, literal: None, excludes: false })
    }

    /// Whether a path matches. `steps` counts the comparisons.
    pub(super) fn matches(&self, path: &str, steps: &mut usize) -> bool {
        *steps += 1;
        if let Some(literal) = &self.literal {
            let has_prefix = |path: &str| {
                let start = path.get(..literal.len());
                start.is_some_and(|start| {
                    if self.ignores_case { start.eq_ignore_ascii_case(literal) } else { start == literal }
                })
            };
            if has_prefix(path) {
                let rest = path.get(literal.len()..).unwrap_or_default();
                if rest.is_empty() || literal.is_empty() || literal.ends_with('/') || rest.starts_with('/') {
                    return true;
                }
            }
        }
        self.matches_tokens(path, steps)
    }

    /// Follows all ways through the tokens at once: never more steps than characters of the path by tokens.
    fn matches_tokens(&self, path: &str, steps: &mut usize) -> bool {
        *steps += self.tokens.len() / 16;
        let mut states = ActiveStates::new(self.tokens.len());
        self.enter(0, &mut states);
        for c in path.chars() {
            let active = states.advance();
            if active.is_empty() {
                return false;
            }
            *steps += active.len();
            for at in active {
                match self.tokens.get(at) {
                    Some(Token::Star { crosses }) if *crosses || c != '/' => self.enter(at, &mut states),
                    Some(Token::Folders) => {
                        states.mark(at);
                        if c == '/' {
                            self.enter(at + 1, &mut states);
                        }
                    }
                    Some(token) if token.matches(c, self.ignores_case) => self.enter(at + 1, &mut states),
                    _ => {}
                }
            }
        }
        states.active.contains(&self.tokens.len())
    }

    /// Marks a state, and those that are reached without a character.
    fn enter(&self, from: usize, states: &mut ActiveStates) {
        let mut at = from;
        while states.mark(at) && matches!(self.tokens.get(at), Some(Token::Star { .. } | Token::Folders)) {
            at += 1;
        }
    }
}

/// The tokens before which a match stands after some characters.
struct ActiveStates {
    active: Vec<usize>,
    /// The number of characters at which each was last marked.
    marked_at: Vec<usize>,
    count: usize,
}

impl ActiveStates {
    fn new(tokens: usize) -> Self {
        Self { active: Vec::new(), marked_at: vec![0; tokens + 1], count: 1 }
    }

    /// Returns the states, and begins those after the next character.
    fn advance(&mut self) -> Vec<usize> {
        self.count += 1;
        std::mem::take(&mut self.active)
    }

    /// Marks a state; returns whether it was not marked.
    fn mark(&mut self, state: usize) -> bool {
        match self.marked_at.get_mut(state) {
            Some(marked) if *marked != self.count => {
                *marked = self.count;
                self.active.push(state);
                true
            }
            _ => false,
        }
    }
}

/// What stands before the path of a pathspec.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of its own")]
struct PathspecMagic {
    is_glob: bool,
    is_literal: bool,
    ignores_case: bool,
    excludes: bool,
}

impl PathspecMagic {
    fn read(written: &str) -> Result<(Self, &str), String> {
        let mut magic = Self::default();
        let Some(rest) = written.strip_prefix(':') else { return Ok((magic, written)) };
        if let Some(rest) = rest.strip_prefix('(') {
            let (names, pattern) =
                rest.split_once(')').ok_or_else(|| format!("`{written}` has no `)` after its magic"))?;
            for name in names.split(',').filter(|name| !name.is_empty()) {
                match name {
                    "top" => {}
                    "glob" => magic.is_glob = true,
                    "literal" => magic.is_literal = true,
                    "icase" => magic.ignores_case = true,
                    "exclude" => magic.excludes = true,
                    other => {
                        return Err(format!("federate does not know the magic `{other}` of `{written}`"));
                    }
                }
            }
            if magic.is_glob && magic.is_literal {
                return Err(format!("`literal` and `glob` of `{written}` exclude each other"));
            }
            return Ok((magic, pattern));
        }
        let mut pattern = rest;
        while let Some(c) = pattern.chars().next() {
            match c {
                ':' => {
                    pattern = pattern.get(1..).unwrap_or_default();
                    break;
                }
                '/' => {}
                '!' | '^' => magic.excludes = true,
                '"' | '#' | '%' | '&' | '\'' | ',' | '-' | ';' | '<' | '=' | '>' | '@' | '_' | '`' | '~' => {
                    return Err(format!("git does not know the magic `{c}` of `{written}`"));
                }
                _ => break,
            }
            pattern = pattern.get(c.len_utf8()..).unwrap_or_default();
        }
        Ok((magic, pattern))
    }
}

/// The class that begins before `at`, and where it ends; `None` if it is broken.
fn read_class(characters: &[char], mut at: usize, dialect: Dialect) -> Option<(Token, usize)> {
    let is_go = dialect == Dialect::PathMatch;
    let crosses = matches!(dialect, Dialect::PathMatch | Dialect::Pathspec);
    let is_negated = match characters.get(at) {
        Some('^') => true,
        Some('!') => !is_go,
        _ => false,
    };
    at += usize::from(is_negated);
    let start = at;
    let is_pathspec = matches!(dialect, Dialect::Pathspec | Dialect::PathspecGlob);
    let mut ranges = Vec::new();
    loop {
        let c = *characters.get(at)?;
        if c == ']' && at > start {
            return Some((Token::Class { ranges, is_negated, crosses }, at + 1));
        }
        if is_pathspec && c == '[' && characters.get(at + 1) == Some(&':') {
            let (mut named, end) = read_named_class(characters, at + 2)?;
            ranges.append(&mut named);
            at = end;
            continue;
        }
        let (low, end) = read_class_character(characters, at, is_pathspec)?;
        at = end;
        let is_range = characters.get(at) == Some(&'-')
            && !(is_pathspec && characters.get(at + 1).is_none_or(|next| *next == ']'));
        let high = if is_range {
            let (high, end) = read_class_character(characters, at + 1, is_pathspec)?;
            at = end;
            high
        } else {
            low
        };
        ranges.push((low, high));
    }
}

/// A character of a class, and where it ends.
fn read_class_character(characters: &[char], at: usize, is_pathspec: bool) -> Option<(char, usize)> {
    match characters.get(at)? {
        '\\' => Some((*characters.get(at + 1)?, at + 2)),
        '-' | ']' if !is_pathspec => None,
        c => Some((*c, at + 1)),
    }
}

/// The ranges of a class such as `[:alpha:]`, whose name begins at `at`, and where it ends.
fn read_named_class(characters: &[char], at: usize) -> Option<(Vec<(char, char)>, usize)> {
    let end = (at..characters.len()).find(|end| characters.get(*end) == Some(&':'))?;
    if characters.get(end + 1) != Some(&']') {
        return None;
    }
    let name: String = characters.get(at..end)?.iter().collect();
    let ranges: &[(char, char)] = match name.as_str() {
        "alnum" => &[('a', 'z'), ('A', 'Z'), ('0', '9')],
        "alpha" => &[('a', 'z'), ('A', 'Z')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[(' ', ' '), ('\t', '\r')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('a', 'f'), ('A', 'F')],
        _ => return None,
    };
    Some((ranges.to_vec(), end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &PathPattern, path: &str, expected: bool, written: &str) {
        assert_eq!(pattern.matches(path, &mut 0), expected, "{written} {path}");
    }

    #[test]
    fn folders_match_as_with_path_match() {
        for (written, path, expected) in [
            ("apps/*", "apps/web", true),
            ("apps/*", "apps/web/x", false),
            ("apps/**", "apps/web", true),
            ("apps/**", "apps/web/x", false),
            ("apps/?eb", "apps/web", true),
            ("apps?web", "apps/web", false),
            ("apps/[^a]*", "apps/web", true),
            ("apps/[!a]*", "apps/web", false),
            ("apps/[!a]*", "apps/!x", true),
            ("apps/\\w*", "apps/web", true),
            ("apps/{web,api}", "apps/web", false),
            ("./apps", "apps", false),
            ("", "apps", false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false),
        ] {
            check(&PathPattern::parse_path_match(written).unwrap(), path, expected, written);
        }
        for broken in ["apps/[a", "[]a]", "[-a]", "a\\", "[a-]"] {
            assert!(PathPattern::parse_path_match(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn files_match_as_with_git() {
        for (written, path, expected) in [
            ("*/config.json", "a/b/config.json", true),
            ("**/config.json", "config.json", false),
            ("cfg", "cfg/a/b.yaml", true),
            ("cfg/", "cfg/a/b.yaml", true),
            ("cf?", "cfg/a/b.yaml", false),
            ("cfg?a*", "cfg/a/b.yaml", true),
            ("./cfg//a/../a", "cfg/a/b.yaml", true),
            (":(glob)*/config.json", "a/b/config.json", false),
            (":(glob)**/config.json", "config.json", true),
            (":(glob)a/**/c", "a/c", true),
            (":(glob)a/**", "a/b/c", true),
            (":(icase)CFG/*.YAML", "cfg/a/b.yaml", true),
            (":(literal)a*", "ab", false),
            (":/cfg", "cfg/a", true),
            ("[[:alpha:]]fg/[!z]", "cfg/a", true),
            ("a[", "a[", true),
            (".", "x/y", true),
        ] {
            check(&PathPattern::parse_pathspec(written).unwrap(), path, expected, written);
        }
        assert!(PathPattern::parse_pathspec(":!cfg").unwrap().excludes);
        for refused in ["/cfg", "../x", "", ":(attr:x)a", ":(glob,literal)a", ":(glob"] {
            assert!(PathPattern::parse_pathspec(refused).is_err(), "{refused}");
        }
    }
}
