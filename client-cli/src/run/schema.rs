//! `--json-schema`: whether the last message is JSON of a schema.

use std::path::Path;

use anyhow::Context as _;
use jsonschema::Validator;
use serde_json::Value;

/// Faults that the model is told of at most.
const FAULTS: usize = 10;

/// A schema that the answer must keep.
pub(crate) struct AnswerSchema {
    validator: Validator,
    text: String,
}

impl AnswerSchema {
    /// Reads the schema.
    ///
    /// # Errors
    /// When the file cannot be read, or is no JSON Schema. References to other documents are not fetched.
    pub(crate) async fn load(path: &Path) -> anyhow::Result<Self> {
        let text = tokio::fs::read_to_string(path)
            .await
            .with_context(|| format!("the schema {} cannot be read", path.display()))?;
        Self::parse(text).with_context(|| format!("{} is no JSON Schema", path.display()))
    }

    fn parse(text: String) -> anyhow::Result<Self> {
        let schema: Value = serde_json::from_str(&text)?;
        let validator = jsonschema::validator_for(&schema).map_err(|e| anyhow::anyhow!("{e}"))?;
        Ok(Self { validator, text })
    }

    /// What is wrong with the answer; `None` when nothing is. One code fence around the JSON is overlooked.
    pub(crate) fn fault(&self, answer: &str) -> Option<String> {
        let value: Value = match serde_json::from_str(without_fence(answer)) {
            Ok(value) => value,
            Err(error) => return Some(format!("it is not JSON: {error}")),
        };
        let faults: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(FAULTS)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// What the model is told with the task.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "Answer, in your last message, with one JSON value and nothing else. It must keep this JSON Schema:\n{}",
            self.text.trim()
        )
    }

    /// What the model is told when its answer has a fault.
    pub(crate) fn complaint(&self, fault: &str) -> String {
        format!(
            "Your last message does not keep the JSON Schema: {fault}\nSend the whole answer again. {}",
            self.instruction()
        )
    }
}

fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    match inner {
        Some((_language, inner)) => inner.trim(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged_with_or_without_a_fence() {
        let schema =
            r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}"#;
        let schema = AnswerSchema::parse(schema.to_owned()).unwrap();
        assert_eq!(schema.fault(r#"{"n": 1}"#), None);
        assert_eq!(schema.fault("```json\n{\"n\": 1}\n```\n"), None);
        assert!(schema.fault("Here it is: {}").unwrap().contains("not JSON"));
        assert!(schema.fault(r#"{"n": "x"}"#).unwrap().contains("/n"));
        assert!(AnswerSchema::parse("{\"type\": 5}".to_owned()).is_err());
    }
}
