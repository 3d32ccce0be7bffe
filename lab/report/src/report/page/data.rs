//! Numbers of the plots and maps of a page, as JSON in a script element.

use serde_json::{Value, json};

use super::super::map::{MemoryMap, packed};
use super::super::plot::Plot;

/// Returns plots in the format of the document's own JSON, and packed maps, since these have millions of cells.
pub(super) fn json(plots: &[&Plot], maps: &[&MemoryMap]) -> String {
    let maps: Vec<Value> = maps.iter().map(|map| packed::pack(map)).collect();
    inert(&json!({ "plots": plots, "maps": maps }).to_string())
}

/// Escapes JSON so that no text can end the script element around it. `<` occurs only in strings, where an escape is
/// allowed.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_json_cannot_end_its_element() {
        let text = inert(&json!({ "name": "</script><!--" }).to_string());
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["name"], "</script><!--");
    }
}
