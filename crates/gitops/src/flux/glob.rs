//! Globs that take parts of the values of variables away (`${x#*-}`).
//!
//! Facts: the package `envsubst/path` of Flux. `*` stands for any characters, also for `/`, `?` for one, `[a-z]` and `[^a-z]` for one of
//! a class, and a backslash quotes the next character. A broken glob takes nothing away, and neither does one that only matches the
//! empty text.

/// The most steps of the globs of one object.
const MAX_STEPS: usize = 20_000_000;

/// How many steps the globs of an object may still take.
pub(super) struct GlobBudget(usize);

impl Default for GlobBudget {
    fn default() -> Self {
        Self(MAX_STEPS)
    }
}

impl GlobBudget {
    fn take(&mut self, steps: usize) -> Result<(), GlobError> {
        self.0 = self.0.checked_sub(steps).ok_or(GlobError::TooLong)?;
        Ok(())
    }
}

/// Why a glob matches nothing.
enum GlobError {
    Broken,
    TooLong,
}

/// A glob, or a part of one up to its next star.
type Pattern<'p> = &'p [char];

/// The text without its longest start that the glob matches.
pub(super) fn trim_longest(text: &str, glob: &str, budget: &mut GlobBudget) -> Result<String, String> {
    trim_match(text, glob, true, budget)
}

/// The text without its shortest start that the glob matches.
pub(super) fn trim_shortest(text: &str, glob: &str, budget: &mut GlobBudget) -> Result<String, String> {
    trim_match(text, glob, false, budget)
}

fn trim_match(text: &str, glob: &str, is_longest: bool, budget: &mut GlobBudget) -> Result<String, String> {
    let (characters, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), glob.chars().collect());
    let mut matched = 0;
    for length in (1..=characters.len()).rev() {
        match matches_glob(&pattern, characters.get(..length).unwrap_or_default(), budget) {
            Ok(true) => matched = length,
            Ok(false) => {}
            Err(GlobError::Broken) => return Ok(text.to_owned()),
            Err(GlobError::TooLong) => return Err(format!("the glob `{glob}` takes too many steps")),
        }
        if is_longest && matched > 0 {
            break;
        }
    }
    Ok(characters.get(matched..).unwrap_or_default().iter().collect())
}

fn matches_glob(
    mut pattern: Pattern<'_>,
    mut name: &[char],
    budget: &mut GlobBudget,
) -> Result<bool, GlobError> {
    'parts: while !pattern.is_empty() {
        let after_stars = pattern.iter().position(|c| *c != '*').unwrap_or(pattern.len());
        let is_star = after_stars > 0;
        let rest = pattern.get(after_stars..).unwrap_or_default();
        let (part, rest) = rest.split_at(find_star(rest));
        pattern = rest;
        if is_star && part.is_empty() {
            return Ok(true);
        }
        let last_skip = if is_star { name.len() } else { 0 };
        for skipped in 0..=last_skip {
            let from = name.get(skipped..).unwrap_or_default();
            if let Some(left) = match_part(part, from, budget)?
                && (left.is_empty() || !pattern.is_empty())
            {
                name = left;
                continue 'parts;
            }
        }
        return Ok(false);
    }
    Ok(name.is_empty())
}

/// Where the next star is that is not quoted and not in a class.
fn find_star(pattern: Pattern<'_>) -> usize {
    let (mut at, mut is_class) = (0, false);
    while let Some(c) = pattern.get(at) {
        match c {
            '\\' => at += 1,
            '[' => is_class = true,
            ']' => is_class = false,
            '*' if !is_class => return at,
            _ => {}
        }
        at += 1;
    }
    pattern.len()
}

/// What is left of a text behind a part of a glob; `None` if the text does not begin with it.
fn match_part<'n>(
    mut part: Pattern<'_>,
    mut name: &'n [char],
    budget: &mut GlobBudget,
) -> Result<Option<&'n [char]>, GlobError> {
    while let Some((first, rest)) = part.split_first() {
        budget.take(1)?;
        let Some((character, left)) = name.split_first() else { return Ok(None) };
        part = rest;
        let is_match = match first {
            '?' => true,
            '[' => {
                let (is_match, rest) = match_class(rest, *character)?;
                part = rest;
                is_match
            }
            '\\' => {
                let (quoted, rest) = rest.split_first().ok_or(GlobError::Broken)?;
                part = rest;
                quoted == character
            }
            first => first == character,
        };
        if !is_match {
            return Ok(None);
        }
        name = left;
    }
    Ok(Some(name))
}

/// Whether a character is in the class behind a bracket, and what follows the class.
fn match_class(class: Pattern<'_>, character: char) -> Result<(bool, Pattern<'_>), GlobError> {
    let (is_negated, mut class) = match class.split_first() {
        Some(('^', rest)) => (true, rest),
        _ => (false, class),
    };
    let (mut is_match, mut ranges) = (false, 0);
    loop {
        if let Some((']', rest)) = class.split_first()
            && ranges > 0
        {
            return Ok((is_match != is_negated, rest));
        }
        let (low, rest) = read_class_character(class)?;
        let (high, rest) = match rest.split_first() {
            Some(('-', rest)) => read_class_character(rest)?,
            _ => (low, rest),
        };
        is_match |= (low..=high).contains(&character);
        ranges += 1;
        class = rest;
    }
}

fn read_class_character(class: Pattern<'_>) -> Result<(char, Pattern<'_>), GlobError> {
    let (first, rest) = class.split_first().ok_or(GlobError::Broken)?;
    let (character, rest) = match first {
        '-' | ']' => return Err(GlobError::Broken),
        '\\' => rest.split_first().ok_or(GlobError::Broken)?,
        first => (first, rest),
    };
    if rest.is_empty() { Err(GlobError::Broken) } else { Ok((*character, rest)) }
}
