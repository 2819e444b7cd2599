//! Maps documents in the output of a template to lines of the template.

/// The separator lines of a template and of its output.
pub(super) struct DocumentLines {
    template: Vec<u32>,
    rendered: Vec<u32>,
}

impl DocumentLines {
    pub(super) fn new(template: &str, rendered: &str) -> Self {
        let [template, rendered] = [template, rendered].map(|text| {
            (1..).zip(text.lines()).filter(|(_, line)| line.trim_end() == "---").map(|(n, _)| n).collect()
        });
        Self { template, rendered }
    }

    /// The line after the `---` in the template that precedes a document, if template and output have the
    /// same number of separators; otherwise the first line.
    pub(super) fn find_template_line(&self, line: u32) -> u32 {
        let before = self.rendered.partition_point(|separator| *separator <= line);
        let same = self.rendered.len() == self.template.len();
        match before.checked_sub(1).and_then(|last| self.template.get(last)) {
            Some(separator) if same => separator + 1,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_in_the_template() {
        let source = "{% set a = 1 %}\na: 1\n---\n{% if true %}\nb: 1\n{% endif %}\n---\nc: 1\n";
        let lines = DocumentLines::new(source, "a: 1\n---\nb: 1\n---\nc: 1\n");
        assert_eq!([1, 3, 5].map(|line| lines.find_template_line(line)), [1, 4, 8]);
        let other = DocumentLines::new(
            "{% for z in cluster.zones %}\n---\na: 1\n{% endfor %}",
            "---\na: 1\n---\na: 1\n",
        );
        assert_eq!(other.find_template_line(4), 1);
    }
}
