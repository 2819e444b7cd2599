//! Lua's patterns. Each attempt of a match counts as a step, so that an exponential pattern ends like an
//! endless loop.
//!
//! Facts: the patterns of the Lua 5.1 manual, with `%f`.

use super::limits::{ScriptBudget, TOO_LONG};

/// The most groups of a pattern.
const MAX_CAPTURES: usize = 32;

/// The deepest recursion of a match.
const MAX_DEPTH: usize = 400;

/// A match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PatternMatch {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) groups: Vec<PatternCapture>,
}

/// The capture of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternCapture {
    /// A group that is not closed yet.
    Open(usize),
    /// `()`: a position.
    Position(usize),
    /// From the first place to before the second.
    Text(usize, usize),
}

/// The first match that begins at `from` or later.
pub(crate) fn find_match(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    budget: &ScriptBudget,
) -> Result<Option<PatternMatch>, String> {
    let (anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut matcher = Matcher { subject, pattern, groups: Vec::new(), budget, depth: 0 };
    for start in from..=subject.len() {
        matcher.groups.clear();
        if let Some(end) = matcher.match_from(start, 0)? {
            return Ok(Some(PatternMatch { start, end, groups: matcher.groups }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

struct Matcher<'m> {
    subject: &'m [u8],
    pattern: &'m [u8],
    groups: Vec<PatternCapture>,
    budget: &'m ScriptBudget,
    depth: usize,
}

type Matched = Result<Option<usize>, String>;

impl Matcher<'_> {
    /// The end of a match that begins at `s`, for the pattern from `p` on.
    fn match_from(&mut self, s: usize, p: usize) -> Matched {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("pattern too complex".to_owned());
        }
        let end = self.matches_here(s, p);
        self.depth -= 1;
        end
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.charge_step()?;
            let Some(item) = self.pattern.get(p) else { return Ok(Some(s)) };
            match (item, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open_group(PatternCapture::Position(s), s, p + 2),
                (b'(', _) => return self.open_group(PatternCapture::Open(s), s, p + 1),
                (b')', _) => return self.close_group(s, p + 1),
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.match_balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.match_frontier(s, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.match_group_again(s, *digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let next = self.end_of_class(p)?;
                    match self.pattern.get(next) {
                        Some(b'?') => {
                            if self.matches_single(s, p, next)
                                && let Some(end) = self.match_from(s + 1, next + 1)?
                            {
                                return Ok(Some(end));
                            }
                            p = next + 1;
                        }
                        Some(b'*') => return self.match_most(s, p, next, 0),
                        Some(b'+') => return self.match_most(s, p, next, 1),
                        Some(b'-') => return self.match_fewest(s, p, next),
                        _ if self.matches_single(s, p, next) => (s, p) = (s + 1, next),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn charge_step(&self) -> Result<(), String> {
        self.budget.charge_work(1).then_some(()).ok_or_else(|| TOO_LONG.to_owned())
    }

    fn open_group(&mut self, group: PatternCapture, s: usize, p: usize) -> Matched {
        if self.groups.len() == MAX_CAPTURES {
            return Err("too many captures".to_owned());
        }
        self.groups.push(group);
        let end = self.match_from(s, p)?;
        if end.is_none() {
            self.groups.pop();
        }
        Ok(end)
    }

    fn close_group(&mut self, s: usize, p: usize) -> Matched {
        let opened = self.groups.iter().rposition(|group| matches!(group, PatternCapture::Open(_)));
        let Some(at) = opened else { return Err("invalid pattern capture".to_owned()) };
        let PatternCapture::Open(start) = self.groups[at] else { return Ok(None) };
        self.groups[at] = PatternCapture::Text(start, s);
        let end = self.match_from(s, p)?;
        if end.is_none() {
            self.groups[at] = PatternCapture::Open(start);
        }
        Ok(end)
    }

    /// Matches as many bytes as possible, then fewer.
    fn match_most(&mut self, s: usize, p: usize, next: usize, least: usize) -> Matched {
        let mut count = 0;
        while self.matches_single(s + count, p, next) {
            self.charge_step()?;
            count += 1;
        }
        while count >= least {
            if let Some(end) = self.match_from(s + count, next + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    /// Matches as few bytes as possible, then more.
    fn match_fewest(&mut self, mut s: usize, p: usize, next: usize) -> Matched {
        loop {
            if let Some(end) = self.match_from(s, next + 1)? {
                return Ok(Some(end));
            }
            if !self.matches_single(s, p, next) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn match_balanced(&self, s: usize, p: usize) -> Matched {
        let (Some(open), Some(close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err("unbalanced pattern".to_owned());
        };
        if self.subject.get(s) != Some(open) {
            return Ok(None);
        }
        let mut level = 1;
        for (at, byte) in self.subject.iter().enumerate().skip(s + 1) {
            self.charge_step()?;
            if byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    /// Matches a frontier: the byte before is not in the set, the next one is. Returns the place after the set in
    /// the pattern.
    fn match_frontier(&self, s: usize, p: usize) -> Matched {
        if self.pattern.get(p) != Some(&b'[') {
            return Err("missing '[' after '%f' in pattern".to_owned());
        }
        let next = self.end_of_class(p)?;
        let before = s.checked_sub(1).and_then(|at| self.subject.get(at)).copied().unwrap_or(0);
        let after = self.subject.get(s).copied().unwrap_or(0);
        let holds = !self.in_set(before, p, next - 1) && self.in_set(after, p, next - 1);
        Ok(holds.then_some(next))
    }

    /// Matches the text of a group again.
    fn match_group_again(&self, s: usize, digit: u8) -> Matched {
        let at = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some(PatternCapture::Text(start, end)) = self.groups.get(at) else {
            return Err("invalid capture index".to_owned());
        };
        let text = &self.subject[*start..*end];
        Ok(self.subject[s..].starts_with(text).then_some(s + text.len()))
    }

    /// The place after a single item of the pattern, before its repetition.
    fn end_of_class(&self, p: usize) -> Result<usize, String> {
        match self.pattern.get(p) {
            Some(b'%') if self.pattern.len() == p + 1 => Err("malformed pattern (ends with '%')".to_owned()),
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut at = p + 1 + usize::from(self.pattern.get(p + 1) == Some(&b'^'));
                loop {
                    let skip = match self.pattern.get(at) {
                        None => return Err("malformed pattern (missing ']')".to_owned()),
                        Some(b'%') => 2,
                        Some(_) => 1,
                    };
                    at += skip;
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn matches_single(&self, s: usize, p: usize, next: usize) -> bool {
        let Some(byte) = self.subject.get(s).copied() else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, next - 1),
            literal => literal == byte,
        }
    }

    /// Whether a set holds a byte; `last` is the place of its closing bracket.
    fn in_set(&self, byte: u8, p: usize, last: usize) -> bool {
        let negated = self.pattern.get(p + 1) == Some(&b'^');
        let mut at = p + 1 + usize::from(negated);
        while at < last {
            let (holds, skip) = match (self.pattern[at], self.pattern.get(at + 1), self.pattern.get(at + 2)) {
                (b'%', Some(class), _) => (in_class(byte, *class), 2),
                (from, Some(b'-'), Some(to)) if at + 2 < last => ((from..=*to).contains(&byte), 3),
                (literal, ..) => (literal == byte, 1),
            };
            if holds {
                return !negated;
            }
            at += skip;
        }
        negated
    }
}

/// Whether a byte is of a class such as `%d`; anything else after `%` stands for itself.
fn in_class(byte: u8, class: u8) -> bool {
    let holds = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    holds != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(subject: &str, pattern: &str) -> Option<Vec<String>> {
        let found =
            find_match(subject.as_bytes(), pattern.as_bytes(), 0, &ScriptBudget::default()).unwrap()?;
        let text = |start, end| subject[start..end].to_owned();
        if found.groups.is_empty() {
            return Some(vec![text(found.start, found.end)]);
        }
        Some(
            found
                .groups
                .iter()
                .map(|group| match group {
                    PatternCapture::Text(start, end) => text(*start, *end),
                    PatternCapture::Position(at) | PatternCapture::Open(at) => (at + 1).to_string(),
                })
                .collect(),
        )
    }

    #[test]
    fn patterns_of_the_manual() {
        let all = |subject, pattern| groups(subject, pattern).unwrap().join(",");
        assert_eq!(all("v1.2.3", "(%d+)%.(%d+)"), "1,2");
        assert_eq!(all("team/web-1", "^([^/]+)/(.+)$"), "team,web-1");
        assert_eq!(all("key = value", "^(%w+)%s*=%s*(%w+)$"), "key,value");
        assert_eq!(all("a(b(c)d)e", "%b()"), "(b(c)d)");
        assert_eq!(all("hello", "()ll()"), "3,5");
        assert_eq!(all("THE (quick) fox", "%f[%a]%a+%f[%A]"), "THE");
        assert_eq!(all("<<a>>", "<(.-)>"), "<a");
        assert_eq!(all("x=[[y]]", "[]]+"), "]]");
        assert_eq!(all("'quoted'", "(['\"])(.-)%1"), "',quoted");
        assert_eq!(all("a-z", "[a%-z]+"), "a-z");
        assert_eq!(groups("abc", "^b"), None);
        assert_eq!(all("colour", "colou?r"), "colour");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let wrong =
            |pattern: &str| find_match(b"a", pattern.as_bytes(), 0, &ScriptBudget::default()).unwrap_err();
        assert_eq!(wrong("%"), "malformed pattern (ends with '%')");
        assert_eq!(wrong("[a"), "malformed pattern (missing ']')");
        assert_eq!(wrong("a)"), "invalid pattern capture");
    }

    #[test]
    fn a_pattern_that_tries_everything_ends() {
        let subject = vec![b'a'; 100];
        let pattern = format!("{}b", "a*".repeat(20));
        let failed = find_match(&subject, pattern.as_bytes(), 0, &ScriptBudget::default());
        assert_eq!(failed.unwrap_err(), "the script takes too long");
    }
}
