//! Globs for paths, in the dialects of Argo CD.
//!
//! Facts: the packages gobwas/glob without separators (`directory.include`, `directory.exclude`), and doublestar (values files). `?`
//! stands for one character, `[abc]`, `[a-z]` and `[!a-z]` for one of a class, `{a,b}` for alternatives, and a backslash quotes the
//! next character. A broken glob matches nothing.

/// The longest glob.
const MAX_GLOB: usize = 4096;

/// The most steps that the globs of one source take: the characters of a glob for each character of a path.
const MAX_STEPS: usize = 100_000_000;

/// The deepest nesting of alternatives.
const MAX_DEPTH: usize = 16;

/// What globs mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GlobDialect {
    /// `*` and `**` stand for any characters, also for `/`.
    Gobwas,
    /// `*` and `?` stand for characters of one name, and `**` for any folders.
    Doublestar,
}

/// How many steps the globs of a source may still take.
pub(super) struct PathGlobBudget(usize);

impl Default for PathGlobBudget {
    fn default() -> Self {
        Self(MAX_STEPS)
    }
}

/// A glob.
pub(super) struct PathGlob {
    length: usize,
    /// `None` if the glob is broken.
    parts: Option<Vec<GlobPart>>,
}

enum GlobPart {
    /// Any characters.
    All,
    /// Any characters but `/`.
    Star,
    /// Any folders, with the `/` behind them.
    Folders,
    /// One character.
    Any,
    /// One character but `/`.
    NameCharacter,
    Character(char),
    Class {
        is_negated: bool,
        /// Whether it may stand for `/`.
        crosses: bool,
        ranges: Vec<(char, char)>,
    },
    Alternatives(Vec<Vec<GlobPart>>),
}

impl PathGlob {
    /// Reads a glob. The error says that it is too long, which Argo CD would accept.
    pub(super) fn new(glob: &str, dialect: GlobDialect) -> Result<Self, String> {
        let characters: Vec<char> = glob.chars().collect();
        if characters.len() > MAX_GLOB {
            return Err(format!("the glob is longer than {MAX_GLOB} characters"));
        }
        let mut parser = GlobParser { text: &characters, at: 0, dialect };
        Ok(Self { length: characters.len(), parts: parser.read_parts(0) })
    }

    /// Whether it is broken, so that it matches nothing.
    pub(super) fn is_broken(&self) -> bool {
        self.parts.is_none()
    }

    /// How many steps it takes to compare it with a path.
    pub(super) fn count_steps(&self, path: &str) -> usize {
        self.length.saturating_mul(path.len() + 1)
    }

    /// Whether it matches a path. The error says that the globs take too many steps.
    pub(super) fn matches(&self, path: &str, budget: &mut PathGlobBudget) -> Result<bool, String> {
        let Some(parts) = &self.parts else { return Ok(false) };
        let steps = self.count_steps(path);
        budget.0 = budget.0.checked_sub(steps).ok_or("the globs take too many steps: shorten them")?;
        let characters: Vec<char> = path.chars().collect();
        let mut start = vec![false; characters.len() + 1];
        if let Some(first) = start.first_mut() {
            *first = true;
        }
        Ok(match_parts(parts, &characters, start).last() == Some(&true))
    }
}

/// The positions of a text that are reached behind parts, from these ones.
fn match_parts(parts: &[GlobPart], text: &[char], mut reached: Vec<bool>) -> Vec<bool> {
    for part in parts {
        reached = match part {
            GlobPart::All => extend(reached, text, &|_| true),
            GlobPart::Star => extend(reached, text, &|character| character != '/'),
            GlobPart::Folders => {
                let below =
                    step(&extend(reached.clone(), text, &|_| true), text, &|character| character == '/');
                reached.iter().zip(below).map(|(here, below)| *here || below).collect()
            }
            GlobPart::Any => step(&reached, text, &|_| true),
            GlobPart::NameCharacter => step(&reached, text, &|character| character != '/'),
            GlobPart::Character(c) => step(&reached, text, &|character| character == *c),
            GlobPart::Class { is_negated, crosses, ranges } => step(&reached, text, &|character| {
                (*crosses || character != '/')
                    && ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *is_negated
            }),
            GlobPart::Alternatives(all) => {
                let mut union = vec![false; reached.len()];
                for parts in all {
                    let matched = match_parts(parts, text, reached.clone());
                    union.iter_mut().zip(matched).for_each(|(all, one)| *all |= one);
                }
                union
            }
        };
    }
    reached
}

/// The positions one character further.
fn step(reached: &[bool], text: &[char], accepts: &dyn Fn(char) -> bool) -> Vec<bool> {
    let next = reached.iter().zip(text).map(|(here, character)| *here && accepts(*character));
    std::iter::once(false).chain(next).collect()
}

/// The positions that are reached with any number of such characters.
fn extend(mut reached: Vec<bool>, text: &[char], accepts: &dyn Fn(char) -> bool) -> Vec<bool> {
    let mut is_reached = false;
    for (at, here) in reached.iter_mut().enumerate() {
        let goes_on = at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(|c| accepts(*c));
        is_reached = *here || is_reached && goes_on;
        *here = is_reached;
    }
    reached
}

struct GlobParser<'t> {
    text: &'t [char],
    at: usize,
    dialect: GlobDialect,
}

impl GlobParser<'_> {
    fn read(&mut self) -> Option<char> {
        let character = self.text.get(self.at).copied();
        self.at += 1;
        character
    }

    /// Reads up to the end, or the end of an alternative; `None` if the glob is broken.
    fn read_parts(&mut self, depth: usize) -> Option<Vec<GlobPart>> {
        let mut parts = Vec::new();
        loop {
            let Some(character) = self.read() else { return Some(parts) };
            let part = match character {
                '*' => {
                    let stars = self.read_stars();
                    // `a/**` is also `a`.
                    let ends_folder = matches!(stars, GlobPart::All)
                        && self.dialect == GlobDialect::Doublestar
                        && matches!(parts.last(), Some(GlobPart::Character('/')));
                    match parts.pop_if(|_| ends_folder) {
                        Some(slash) => GlobPart::Alternatives(vec![Vec::new(), vec![slash, stars]]),
                        None => stars,
                    }
                }
                '?' if self.dialect == GlobDialect::Gobwas => GlobPart::Any,
                '?' => GlobPart::NameCharacter,
                '[' => self.read_class()?,
                '{' if depth < MAX_DEPTH => self.read_alternatives(depth + 1)?,
                '{' => return None,
                ',' | '}' if depth > 0 => {
                    self.at -= 1;
                    return Some(parts);
                }
                '\\' => GlobPart::Character(self.read()?),
                character => GlobPart::Character(character),
            };
            parts.push(part);
        }
    }

    /// Reads what follows a star.
    fn read_stars(&mut self) -> GlobPart {
        let start = self.at - 1;
        while self.text.get(self.at) == Some(&'*') {
            self.at += 1;
        }
        if self.dialect == GlobDialect::Gobwas {
            return GlobPart::All;
        }
        let is_name = self.at - start == 2
            && start.checked_sub(1).is_none_or(|before| self.text.get(before) == Some(&'/'));
        match self.text.get(self.at) {
            Some('/') if is_name => {
                self.at += 1;
                GlobPart::Folders
            }
            None if is_name => GlobPart::All,
            _ => GlobPart::Star,
        }
    }

    /// Reads alternatives. With gobwas, they may also end with the glob.
    fn read_alternatives(&mut self, depth: usize) -> Option<GlobPart> {
        let mut all = Vec::new();
        loop {
            all.push(self.read_parts(depth)?);
            match self.read() {
                Some(',') => {}
                None if self.dialect == GlobDialect::Doublestar => return None,
                _ => return Some(GlobPart::Alternatives(all)),
            }
        }
    }

    /// Reads a class: with gobwas, one range or a list of characters.
    fn read_class(&mut self) -> Option<GlobPart> {
        let is_doublestar = self.dialect == GlobDialect::Doublestar;
        let negation = self.text.get(self.at).filter(|c| **c == '!' || is_doublestar && **c == '^');
        let is_negated = negation.is_some();
        self.at += usize::from(is_negated);
        let has_ranges = is_doublestar || self.text.get(self.at + 1) == Some(&'-');
        let mut ranges = Vec::new();
        loop {
            let low = match self.read()? {
                ']' => break,
                '\\' => self.read()?,
                character => character,
            };
            let mut high = low;
            if has_ranges && self.text.get(self.at) == Some(&'-') {
                self.at += 1;
                high = self.read()?;
                if low > high
                    || !is_doublestar && (!ranges.is_empty() || self.text.get(self.at) != Some(&']'))
                {
                    return None;
                }
            }
            ranges.push((low, high));
        }
        if ranges.is_empty() {
            None
        } else {
            Some(GlobPart::Class { is_negated, crosses: !is_doublestar, ranges })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GlobDialect, PathGlob, PathGlobBudget};

    fn is_match(glob: &str, dialect: GlobDialect, path: &str) -> bool {
        PathGlob::new(glob, dialect).and_then(|glob| glob.matches(path, &mut PathGlobBudget::default()))
            == Ok(true)
    }

    #[test]
    fn globs_are_those_of_argo_cd() {
        for (glob, path, expected) in [
            ("*.yaml", "a/b/c.yaml", true),
            ("sub/**", "sub/deep/f.yaml", true),
            ("sub/*", "sub/deep/f.yaml", true),
            ("{a.yaml,b.yml}", "b.yml", true),
            ("{a.yaml,b.yml}", "a.yml", false),
            ("{*.yml,{x,y}/*}", "y/z", true),
            ("{a,b", "b", true),
            ("a}", "a}", true),
            ("?.yaml", "a.yaml", true),
            ("[a-c].yaml", "b.yaml", true),
            ("[!a-c].yaml", "b.yaml", false),
            ("[bd].yaml", "d.yaml", true),
            ("[a", "[a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a", "ab", false),
        ] {
            assert_eq!(is_match(glob, GlobDialect::Gobwas, path), expected, "{glob} {path}");
        }
        assert!(PathGlob::new(&"*".repeat(5000), GlobDialect::Gobwas).is_err());
        let hostile =
            PathGlob::new(&"*a".repeat(2000), GlobDialect::Gobwas).unwrap_or_else(|why| panic!("{why}"));
        let mut budget = PathGlobBudget::default();
        assert_eq!(hostile.matches(&"a".repeat(1000), &mut budget), Ok(false));
        assert!(
            (0..100).any(|_| hostile.matches(&"a".repeat(1000), &mut budget).is_err()),
            "the work has a limit"
        );
    }

    #[test]
    fn globs_of_doublestar_know_folders() {
        for (glob, path, expected) in [
            ("g/*.yaml", "g/a.yaml", true),
            ("g/*.yaml", "g/sub/a.yaml", false),
            ("g/**/*.yaml", "g/a.yaml", true),
            ("g/**/*.yaml", "g/sub/deep/a.yaml", true),
            ("**", "a/b", true),
            ("a**b", "a/b", false),
            ("g/?.yaml", "g/a.yaml", true),
            ("g?a.yaml", "g/a.yaml", false),
            ("[^a-c0-9].yaml", "d.yaml", true),
            ("[a-c0-9].yaml", "7.yaml", true),
            ("{a,b}*.yaml", "b1.yaml", true),
            ("{a", "a", false),
            ("*/config.json", "a/b/config.json", false),
            ("**/config.json", "config.json", true),
            ("cfg/{a,b{1,2}}/*.yaml", "cfg/b2/x.yaml", true),
            ("cfg/**", "cfg", true),
            ("cfg/**", "cfg/a/b", true),
            ("cfg/**", "cfgs", false),
            ("a**/b", "ax/y/b", false),
            ("[!a]", "b", true),
            ("a[!b]c", "a/c", false),
        ] {
            let found = is_match(glob, GlobDialect::Doublestar, path);
            assert_eq!(found, expected, "{glob} {path}");
        }
    }
}
