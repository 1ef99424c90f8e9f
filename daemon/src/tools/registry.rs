//! The built-in tools and what turns typed ones into those the engine holds.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use crystal_protocol::session::Mode;
use jsonschema::{
    JsonType, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use schemars::{Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};
use thiserror::Error;

use super::{
    BuiltIn, Effects, Tool, ToolContext, ToolList, ToolOutput, bash::Bash, edit::Edit, glob::Glob,
    grep::Grep, list::List, read::Read, write::Write,
};

/// Every built-in tool, in catalog order.
pub const BUILT_INS: &[Registration] = &[
    Registration::of::<Read>(),
    Registration::of::<List>(),
    Registration::of::<Glob>(),
    Registration::of::<Grep>(),
    Registration::of::<Edit>(),
    Registration::of::<Write>(),
    Registration::of::<Bash>(),
];

/// A tool in the list.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Its name.
    pub name: &'static str,
    build: fn() -> Arc<dyn Tool>,
}

impl Registration {
    /// Registers a tool.
    pub const fn of<T: BuiltIn + Default>() -> Self {
        Self {
            name: T::NAME,
            build: || Arc::new(Typed::new(T::default())),
        }
    }
}

/// Schemas are compiled once a process.
static BUILT: LazyLock<Vec<Arc<dyn Tool>>> = LazyLock::new(|| {
    BUILT_INS
        .iter()
        .map(|registration| (registration.build)())
        .collect()
});

/// A name that `disableTools` may not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no built-in tool named `{name}`; the built-in tools are {}", names().collect::<Vec<_>>().join(", "))]
pub struct UnknownTool {
    /// The name.
    pub name: String,
}

/// Names of the built-in tools: reserved, also where a tool is switched off.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_INS.iter().map(|registration| registration.name)
}

/// The tools of a mode without the disabled ones, in catalog order.
///
/// # Errors
/// When a disabled name is no built-in tool's.
pub fn catalog(mode: Mode, disabled: &[String]) -> Result<ToolList, UnknownTool> {
    if let Some(name) = disabled
        .iter()
        .find(|name| !names().any(|known| known == *name))
    {
        return Err(UnknownTool { name: name.clone() });
    }
    Ok(BUILT
        .iter()
        .filter(|tool| tool.catalogs().contains(&mode))
        .filter(|tool| !disabled.iter().any(|name| name == tool.name()))
        .cloned()
        .collect())
}

/// A typed tool as the engine holds it.
pub struct Typed<T> {
    tool: T,
    schema: Value,
    validator: Result<Validator, String>,
}

impl<T: BuiltIn> Typed<T> {
    /// Makes the schema of its arguments and compiles it.
    pub fn new(tool: T) -> Self {
        let schema = schema_of::<T::Args>();
        let validator = jsonschema::draft202012::new(&schema).map_err(|error| error.to_string());
        Self {
            tool,
            schema,
            validator,
        }
    }

    fn parse(&self, arguments: &Value) -> Result<T::Args, ToolOutput> {
        let validator = self.validator.as_ref().map_err(|error| {
            ToolOutput::failure(format!(
                "The argument schema of {} is broken: {error}.",
                T::NAME
            ))
        })?;
        let wrong: String = validator
            .iter_errors(arguments)
            .map(|error| format!("\n- {}", explain(&error, &self.schema)))
            .collect();
        if !wrong.is_empty() {
            return Err(ToolOutput::failure(format!(
                "The arguments of {} are wrong, so nothing was done:{wrong}",
                T::NAME
            )));
        }
        serde_json::from_value(arguments.clone()).map_err(|error| {
            ToolOutput::failure(format!("The arguments of {} are wrong: {error}.", T::NAME))
        })
    }
}

#[async_trait]
impl<T: BuiltIn> Tool for Typed<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn title(&self) -> &str {
        T::TITLE
    }

    fn description(&self) -> &str {
        T::DESCRIPTION
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn catalogs(&self) -> &[Mode] {
        T::CATALOGS
    }

    async fn plan(&self, arguments: &Value, cx: &ToolContext) -> Result<Effects, ToolOutput> {
        let args = self.parse(arguments)?;
        self.tool.plan(&args, cx).await
    }

    async fn run(&self, arguments: Value, effects: &Effects, cx: &ToolContext) -> ToolOutput {
        match self.parse(&arguments) {
            Ok(args) => self.tool.run(args, effects, cx).await,
            Err(failed) => failed,
        }
    }
}

/// The schema as a model needs it: nothing referenced, no names of Rust types, no widths of numbers.
fn schema_of<A: schemars::JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.meta_schema = None;
            settings.inline_subschemas = true;
        })
        .with_transform(RecursiveTransform(simplify))
        .for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The text for the model is the tool's description; that of the type is for programmers.
    schema.remove("description");
    schema.to_value()
}

/// Takes out of a schema what says nothing to a model, and makes a choice of words a plain one.
fn simplify(schema: &mut Schema) {
    schema.remove("title");
    let width = schema.get("format").and_then(Value::as_str);
    if width.is_some_and(|format| format.starts_with("uint")) {
        schema.remove("format");
    }
    let Some(mut words) = choice(schema) else {
        return;
    };
    let optional = schema.remove("anyOf").is_some();
    schema.remove("oneOf");
    if optional {
        words.push(Value::Null);
        schema.insert("type".to_owned(), json!(["string", "null"]));
    } else {
        schema.insert("type".to_owned(), json!("string"));
    }
    schema.insert("enum".to_owned(), Value::Array(words));
}

/// The words of a schema that is a choice of them, each documented on its own, be it left out or not.
fn choice(schema: &Schema) -> Option<Vec<Value>> {
    let inner = match schema
        .get("anyOf")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        Some([inner, null]) if null["type"] == "null" => &inner["oneOf"],
        Some(_) => return None,
        None => schema.get("oneOf")?,
    };
    inner
        .as_array()?
        .iter()
        .map(|word| word.get("const").filter(|word| word.is_string()).cloned())
        .collect()
}

/// Says what is wrong with an argument and what is expected. The value itself is not repeated: it may be huge.
fn explain(error: &ValidationError<'_>, schema: &Value) -> String {
    let field = error
        .instance_path()
        .as_str()
        .trim_start_matches('/')
        .replace('/', ".");
    let shown = if field.is_empty() {
        "the arguments".to_owned()
    } else {
        format!("`{field}`")
    };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            format!("`{name}` is missing: {}", expected(schema, name))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = schema["properties"]
                .as_object()
                .map(|known| {
                    known
                        .keys()
                        .map(|name| format!("`{name}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                })
                .unwrap_or_default();
            let unexpected = unexpected
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ");
            format!("{unexpected} is not known here; the arguments are {known}")
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                // `null` stands for leaving the argument out, which needs no mention.
                TypeKind::Multiple(several) => several
                    .iter()
                    .filter(|one| *one != JsonType::Null)
                    .map(|one| one.to_string())
                    .collect::<Vec<_>>()
                    .join(" or "),
            };
            format!(
                "{shown} must be {wanted}, not {}",
                kind_of(error.instance())
            )
        }
        ValidationErrorKind::Enum { options } => {
            let words: Vec<&str> = options
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            format!("{shown} must be one of {}", words.join(", "))
        }
        _ => format!("{shown}: {}", error.masked()),
    }
}

fn expected(schema: &Value, name: &str) -> String {
    let property = &schema["properties"][name];
    let kind = match &property["type"] {
        Value::String(kind) => kind.clone(),
        _ => "a value".to_owned(),
    };
    match property["description"].as_str() {
        Some(description) => format!("{kind}; {description}"),
        None => kind,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
#[path = "registry/tests.rs"]
mod tests;
