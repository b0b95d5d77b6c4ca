//! A Rust file as its tokens, and reduced to its code: no comments, no contents of strings, no needless blanks, lines
//! remembered.
//!
//! Enough of a lexer that a call is found however it is laid out, and not found where it is only talked about.

/// A word, a sign, a string, a comment or a blank, as it stands in the file.
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
    /// What of it is code: nothing of blanks and comments, the quotes of a string.
    pub(crate) code: &'a str,
}

/// The tokens of a file. Joined, their texts are the file again.
pub(crate) fn tokens(source: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = source;
    let mut line = 1;
    std::iter::from_fn(move || {
        let (length, code) = token(rest, rest.chars().next()?);
        let (text, after) = rest.split_at(length);
        let token = Token { text, line, code };
        line += text.matches('\n').count();
        rest = after;
        Some(token)
    })
}

/// The code of a file as one string, with the line that each byte came from.
pub(crate) struct Code {
    text: String,
    lines: Vec<usize>,
}

impl Code {
    pub(crate) fn of(source: &str) -> Self {
        let mut code = Self { text: String::new(), lines: Vec::new() };
        let mut blank = false;
        for token in tokens(source) {
            if token.code.is_empty() {
                blank = true;
            } else {
                // A blank is needed only where two words would become one.
                if blank && code.text.ends_with(is_word) && token.code.starts_with(is_word) {
                    code.push(" ", token.line);
                }
                blank = false;
                code.push(token.code, token.line);
            }
        }
        code
    }

    fn push(&mut self, text: &str, line: usize) {
        self.text.push_str(text);
        self.lines.resize(self.text.len(), line);
    }

    /// The lines where `pattern` stands as whole words.
    pub(crate) fn find<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.text.match_indices(pattern).filter_map(move |(at, _)| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + pattern.len()..].chars().next();
            let starts = !(pattern.starts_with(is_word) && before.is_some_and(is_word));
            let ends = !(pattern.ends_with(is_word) && after.is_some_and(is_word));
            (starts && ends).then(|| self.lines[at])
        })
    }

    /// The same without its `#[cfg(test)] mod … { … }`.
    pub(crate) fn without_tests(&self) -> Self {
        let mut code = Self { text: String::new(), lines: Vec::new() };
        let mut from = 0;
        while let Some(at) = self.text[from..].find(CFG_TEST).map(|at| from + at) {
            let item = after_attributes(&self.text[at..]);
            let item_at = self.text.len() - item.len();
            let end = match item.find(['{', ';']) {
                _ if !is_module(item) => at + CFG_TEST.len(), // a function, say: only modules are cut
                Some(open) if item[open..].starts_with('{') => self.closing_brace(item_at + open),
                Some(semicolon) => item_at + semicolon + 1,
                None => self.text.len(),
            };
            code.text.push_str(&self.text[from..at]);
            code.lines.extend(&self.lines[from..at]);
            from = end;
        }
        code.text.push_str(&self.text[from..]);
        code.lines.extend(&self.lines[from..]);
        code
    }

    /// The end of the block that begins at `open`.
    fn closing_brace(&self, open: usize) -> usize {
        let mut depth = 0;
        for (at, byte) in self.text.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return at + 1,
                b'}' => depth -= 1,
                _ => {}
            }
        }
        self.text.len()
    }
}

const CFG_TEST: &str = "#[cfg(test)]";

/// What follows the attributes that `item` begins with.
fn after_attributes(mut item: &str) -> &str {
    while item.starts_with("#[")
        && let Some((_, rest)) = item.split_once(']')
    {
        item = rest;
    }
    item
}

fn is_module(item: &str) -> bool {
    ["mod ", "pub mod ", "pub(crate)mod ", "pub(super)mod "].iter().any(|module| item.starts_with(module))
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the token that `rest` begins with, and what of it is code.
fn token(rest: &str, next: char) -> (usize, &str) {
    if next.is_whitespace() {
        return (next.len_utf8(), "");
    }
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), "");
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), "");
    }
    if next == '"' {
        return (quoted(rest, '"'), "\"\"");
    }
    if next == '\'' {
        // 'x' and '\n' are characters; 'x without an end is a lifetime.
        let is_character = rest[1..].starts_with('\\') || rest[1..].chars().nth(1) == Some('\'');
        return if is_character { (quoted(rest, '\''), "''") } else { (1, "'") };
    }
    if next == 'r' || rest.starts_with("br") || rest.starts_with("cr") {
        let hashes_and_quote = &rest[rest.find('r').map_or(0, |at| at + 1)..];
        let hashes = hashes_and_quote.len() - hashes_and_quote.trim_start_matches('#').len();
        if hashes_and_quote[hashes..].starts_with('"') {
            let start = rest.len() - hashes_and_quote.len() + hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            return (rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()), "\"\"");
        }
    }
    if is_word(next) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        return (length, &rest[..length]);
    }
    (next.len_utf8(), &rest[..next.len_utf8()])
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str, pattern: &str) -> Vec<usize> {
        Code::of(source).find(pattern).collect()
    }

    #[test]
    fn a_call_is_found_however_it_is_laid_out() {
        assert_eq!(lines("fn f() {\n    thread :: current()\n        .id();\n}", "thread::current().id()"), [2]);
        assert_eq!(lines("a::now(); // a::now()\na::now()", "a::now"), [1, 2]);
    }

    #[test]
    fn a_word_is_not_found_inside_another() {
        assert_eq!(lines("use rand::rng;", "rand::rng"), [1]);
        assert!(lines("brand::rng(); rand::rngs::StdRng", "rand::rng").is_empty());
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        let source = r####"
            //! now()
            /* now() /* now() */ now() */
            let a = "now() \" now()"; let b = r#"now() " now()"#; let c = br"now()"; let d = '"'; let e = '\'';
            fn f<'a>(x: &'a str) { now() }
        "####;
        assert_eq!(lines(source, "now()"), [5]);
    }

    #[test]
    fn a_raw_string_behind_a_word_is_a_string() {
        assert_eq!(lines("return r\"\\\"; now(); \"\"", "now()"), [1]);
    }

    #[test]
    fn tokens_are_the_whole_file() {
        let source = include_str!("code.rs");
        assert_eq!(tokens(source).map(|token| token.text).collect::<String>(), source);
    }

    #[test]
    fn tests_in_the_file_are_cut_and_what_follows_is_not() {
        let source = "f();\n#[cfg(test)]\nmod late;\ng();\n#[cfg(test)]\nmod tests {\n  fn t() { f() }\n}\nf();\n\
            #[cfg(test)]\n#[allow(unused)]\npub(crate) mod bricks { fn t() { g() } }\n#[cfg(test)]\nfn u() { g() }";
        let code = Code::of(source).without_tests();
        assert_eq!(code.find("f()").collect::<Vec<_>>(), [1, 9]);
        assert_eq!(code.find("g()").collect::<Vec<_>>(), [4, 14]);
    }
}
