//! The request that has a model summarise the older part of a conversation.

use super::bind;

/// What the summary must say, and how.
const TASK: &str = "Summarise the conversation below so that the work can go on without it.";

/// The form of the summary.
const FORM: &str = "Write plain text under these headings, and leave out a heading that has nothing: Goal (what the user wants, in the user's words where they matter), Decisions (what was settled and why), Done (what was changed, file by file), Findings (facts about the code that cost effort to learn), Open (what is left to do, next step first).";

/// A request to summarise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRequest {
    /// The system text.
    pub system: String,
    /// The one user message.
    pub user: String,
}

/// The request for a conversation, and for what an earlier summary said.
pub fn summary_request(conversation: &str, earlier: Option<&str>) -> SummaryRequest {
    let value = |name: &str| -> Option<String> {
        Some(match name.to_ascii_lowercase().as_str() {
            "product_name" => "Crystal".to_owned(),
            "summary_task" => TASK.to_owned(),
            "output_template" => FORM.to_owned(),
            "conversation" => conversation.to_owned(),
            "todos_section" => String::new(),
            "prior_summary_section" => earlier.map_or_else(String::new, |earlier| {
                format!("<earlier-summary>\n{earlier}\n</earlier-summary>\n\n")
            }),
            _ => return None,
        })
    };
    let text = |template: &str| bind::bind(template, value).trim_end().to_owned();
    SummaryRequest {
        system: text(include_str!("../../../prompts/compaction.system.md")),
        user: text(include_str!("../../../prompts/compaction.user.md")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_holds_the_conversation_and_the_earlier_summary_and_no_open_slot() {
        let request = summary_request("User: {{workspace}}", Some("before"));
        assert!(request.user.contains("User: {{workspace}}") && request.user.contains("before"));
        assert!(!request.system.contains("{{") && request.user.matches("{{").count() == 1);
        assert!(!summary_request("x", None).user.contains("earlier-summary"));
    }
}
