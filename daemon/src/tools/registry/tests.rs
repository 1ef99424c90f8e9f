//! What is in the catalogs, and what a wrong call is told.

use serde_json::json;

use super::*;
use crate::tools::test_place::Place;

fn catalog_names(mode: Mode, disabled: &[&str]) -> Vec<String> {
    let disabled: Vec<String> = disabled.iter().map(ToString::to_string).collect();
    let tools = catalog(mode, &disabled).unwrap();
    tools.iter().map(|tool| tool.name().to_owned()).collect()
}

#[test]
fn plan_only_looks_and_work_has_the_rest_behind_it() {
    assert_eq!(
        catalog_names(Mode::Plan, &[]),
        ["read", "list", "glob", "grep"]
    );
    let work = catalog_names(Mode::Work, &[]);
    assert!(
        work.join(" ").starts_with("read list glob grep edit write"),
        "{work:?}"
    );
}

#[test]
fn a_disabled_tool_is_left_out_and_an_unknown_name_is_refused() {
    assert!(!catalog_names(Mode::Work, &["grep"]).contains(&"grep".to_owned()));
    let error = catalog(Mode::Work, &["grpe".to_owned()])
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("`grpe`"));
    assert!(error.to_string().contains("read, list, glob, grep"));
    assert!(names().any(|name| name == "grep"));
}

#[test]
fn every_tool_has_a_text_and_a_schema_free_of_noise() {
    for tool in BUILT.iter() {
        assert!(!tool.description().is_empty(), "{}", tool.name());
        let schema = tool.schema();
        assert_eq!(schema["type"], "object", "{}", tool.name());
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name());
        let text = schema.to_string();
        for noise in ["$schema", "$ref", "$defs", "\"title\"", "uint"] {
            assert!(!text.contains(noise), "{noise} in {text}");
        }
        assert!(jsonschema::draft202012::new(schema).is_ok());
    }
}

#[test]
fn arguments_are_named_as_the_model_knows_them() {
    let arguments = |name: &str| {
        let tool = BUILT.iter().find(|tool| tool.name() == name).unwrap();
        let mut names: Vec<String> = tool.schema()["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(arguments("read"), "limit offset path");
    assert_eq!(arguments("list"), "path");
    assert_eq!(arguments("glob"), "path pattern");
    assert_eq!(
        arguments("grep"),
        "context glob ignoreCase output path pattern"
    );
    assert_eq!(arguments("edit"), "new_string old_string path replace_all");
    assert_eq!(arguments("write"), "content path");
}

#[tokio::test]
async fn a_bad_call_is_told_each_wrong_field() {
    let place = Place::new();
    let text = place
        .fails("read", json!({"offset": "x", "lines": 3}))
        .await;
    assert!(
        text.contains("`path` is missing: string; the file"),
        "{text}"
    );
    assert!(
        text.contains("`offset` must be integer, not string"),
        "{text}"
    );
    assert!(text.contains("`lines` is not known here"), "{text}");
    let text = place.fails("read", json!({"path": "a", "offset": 0})).await;
    assert!(text.contains("`offset`"), "{text}");
    let text = place
        .fails("grep", json!({"pattern": "a", "output": "all"}))
        .await;
    assert!(
        text.contains("`output` must be one of lines, files, count"),
        "{text}"
    );
    let text = place.fails("read", json!(["a"])).await;
    assert!(
        text.contains("the arguments must be object, not array"),
        "{text}"
    );
}
