//! The HTML page. Invariant: the page is self-contained; it embeds its style, scripts and model.

use crate::model::Model;
use base::diag::{Diagnostic, Result};

/// The HTML of the page, with placeholders `{{...}}`.
const TEMPLATE: &str = include_str!("../page/page.html");
/// The style sheet that replaces `{{style}}`.
const STYLE: &str = include_str!("../page/style.css");
/// The scripts of the page, ordered by dependence: the top level of a script uses only definitions of earlier scripts.
const SCRIPTS: [&str; 8] = [
    include_str!("../page/basics.js"),
    include_str!("../page/panes.js"),
    include_str!("../page/layouts.js"),
    include_str!("../page/memory.js"),
    include_str!("../page/schedule.js"),
    include_str!("../page/warp_roles.js"),
    include_str!("../page/time.js"),
    include_str!("../page/main.js"),
];

/// Returns the data of the page as JSON.
pub(crate) fn model_json(model: &Model) -> Result<String> {
    serde_json::to_string(model).map_err(|error| Diagnostic::io("VIW004", format!("the model cannot be written: {error}")))
}

/// Generates the page by replacing the placeholders `{{...}}` of the template.
pub(crate) fn render_page(model: &Model) -> Result<String> {
    // Without `<` the model can neither close its script element nor open a comment.
    let data = model_json(model)?.replace('<', "\\u003c");
    let replacements = [
        ("{{title}}", escape_html(&model.title)),
        ("{{style}}", STYLE.into()),
        ("{{model}}", data),
        ("{{script}}", SCRIPTS.join("\n")),
    ];
    // Replace each placeholder once, in the order of the template. An inserted text may contain a placeholder, so each search
    // starts after the inserted text.
    let (mut out, mut rest) = (String::new(), TEMPLATE);
    for (placeholder, text) in replacements {
        let (before, after) = rest.split_once(placeholder).expect("the template has each placeholder, in order");
        out.push_str(before);
        out.push_str(&text);
        rest = after;
    }
    Ok(out + rest)
}

/// Escapes the characters that end a text in HTML.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pane;

    #[test]
    fn model_text_is_not_parsed_as_html_or_as_a_placeholder() {
        let pane = Pane { lines: vec!["</script><!-- {{script}}".into()], ..Pane::default() };
        let model = Model { title: "<k> {{model}}".into(), panes: vec![pane], ..Model::default() };
        let page = render_page(&model).unwrap();
        assert!(page.contains("<title>&lt;k&gt; {{model}}"), "{}", &page[..200]);
        assert_eq!(page.matches("</script>").count(), TEMPLATE.matches("</script>").count());
        let (_, rest) = page.split_once("id=\"model\">").unwrap();
        let parsed: serde_json::Value = serde_json::from_str(rest.split("</script>").next().unwrap()).unwrap();
        assert_eq!(parsed["panes"][0]["lines"][0], "</script><!-- {{script}}");
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = render_page(&Model::default()).unwrap();
        for word in ["http://", "https://", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(word), "{word}");
        }
    }
}
