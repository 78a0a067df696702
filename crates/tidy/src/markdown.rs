//! Finding the links of a Markdown page.
//!
//! Code, fenced or between backticks, holds no links. Anchors are not checked.

/// A link to another file of the repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// The line it is on, counted from 1.
    pub line: usize,
    /// Where it points, as written, without `#anchor` and title.
    pub target: &'a str,
}

/// The links of `text` that lead to files: no web addresses, no anchors within the page.
#[must_use]
pub fn file_links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let targets = targets(line).into_iter().filter_map(file_target);
            links.extend(targets.map(|target| Link { line: index + 1, target }));
        }
    }
    links
}

/// What `target` means as a path from the root, when it is written in the page at `page`.
///
/// `None` if it leads out of the repository.
#[must_use]
pub fn resolve(page: &str, target: &str) -> Option<String> {
    let from_root = target.strip_prefix('/');
    let mut parts: Vec<&str> = if from_root.is_some() { Vec::new() } else { page.split('/').collect() };
    parts.pop();
    for part in from_root.unwrap_or(target).split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Everything that stands where a link's target stands: inline links, images, definitions, HTML.
fn targets(line: &str) -> Vec<&str> {
    let mut found: Vec<&str> = definition(line).into_iter().collect();
    for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        for (at, _) in line.match_indices(opening) {
            let rest = &line[at + opening.len()..];
            let in_code = line[..at].matches('`').count() % 2 == 1;
            found.extend(rest.find(closing).filter(|_| !in_code).map(|end| &rest[..end]));
        }
    }
    found
}

/// The target of a definition, `[name]: target`.
fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
    (!name.contains(']')).then_some(target)
}

fn file_target(target: &str) -> Option<&str> {
    let path = target.trim().split([' ', '#', '?']).next()?;
    let elsewhere = path.contains("://") || path.starts_with("mailto:") || path.starts_with("data:");
    (!elsewhere && !path.is_empty()).then(|| path.trim_matches(['<', '>']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_in_every_form() {
        let text = "[a](one.md#x) and ![b](two.png \"B\")\n\n[c]: three.md\n<img src=\"four.svg\">\n";
        let found: Vec<(usize, &str)> =
            file_links(text).iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(found, [(1, "one.md"), (1, "two.png"), (3, "three.md"), (4, "four.svg")]);
    }

    #[test]
    fn the_web_anchors_and_code_are_left_alone() {
        let text = "[a](https://example.org/a.md) [b](#b) <mailto:x@y> `[c](d.md)`\n```\n[e](f.md)\n```\n";
        assert_eq!(file_links(text), []);
    }

    #[test]
    fn targets_resolve_from_the_page_or_the_root() {
        assert_eq!(resolve("docs/guide.md", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(resolve("docs/guide.md", "./a/b.md").as_deref(), Some("docs/a/b.md"));
        assert_eq!(resolve("docs/guide.md", "/LICENSE").as_deref(), Some("LICENSE"));
        assert_eq!(resolve("docs/guide.md", "../../other.md"), None);
    }
}
