//! `providers.json` as it stands on disk, in its order: the first model of a provider is its default.

use std::{collections::BTreeMap, fmt, marker::PhantomData, path::Path};

use crystal_protocol::{item::Note, session::Thinking};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use super::{ConfigError, builtin::Protocol, json_file, load::unknown_keys};

/// Providers of the file by name, each with the objects that describe it, in order.
pub(super) type Overlay = Vec<(String, Vec<ProviderWire>)>;

/// What one object says of a provider; what is absent stays as built in.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProviderWire {
    pub(super) protocol: Option<Protocol>,
    pub(super) base_uri: Option<String>,
    pub(super) api_key: Option<String>,
    pub(super) api_key_environment: Option<String>,
    pub(super) requires_api_key: Option<bool>,
    pub(super) organization: Option<String>,
    pub(super) project: Option<String>,
    pub(super) token_limit: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) models: Ordered<ModelWire>,
}

/// What is said of a model.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ModelWire {
    pub(super) context_window: Option<u64>,
    pub(super) max_tokens: Option<u64>,
    pub(super) thinking: Option<bool>,
    pub(super) thinking_efforts: Vec<Thinking>,
    pub(super) thinking_can_disable: Option<bool>,
    pub(super) image_input: Option<bool>,
}

const PROVIDER_KEYS: &[&str] = &[
    "protocol",
    "baseUri",
    "apiKey",
    "apiKeyEnvironment",
    "requiresApiKey",
    "organization",
    "project",
    "replayReasoningContent",
    "tokenLimit",
    "headers",
    "serviceTier",
    "speed",
    "models",
];

const MODEL_KEYS: &[&str] = &[
    "contextWindow",
    "maxTokens",
    "temperature",
    "topP",
    "thinking",
    "thinkingEfforts",
    "thinkingCanDisable",
    "imageInput",
    "audioInput",
    "videoInput",
    "price",
];

impl ModelWire {
    /// The thinking gears of the model; `None` when nothing is said of them.
    pub(super) fn gears(&self) -> Option<Vec<Thinking>> {
        let says_nothing = self.thinking.is_none() && self.thinking_efforts.is_empty();
        if says_nothing && self.thinking_can_disable.is_none() {
            return None;
        }
        if self.thinking == Some(false) {
            return Some(Vec::new());
        }
        let mut gears = vec![Thinking::Default];
        if self.thinking_can_disable == Some(true) {
            gears.insert(0, Thinking::Off);
        }
        for gear in &self.thinking_efforts {
            if !gears.contains(gear) {
                gears.push(*gear);
            }
        }
        Some(gears)
    }
}

/// Reads the file; an absent one says nothing. Blocks.
pub(super) fn read(path: &Path) -> Result<(Overlay, Vec<Note>), ConfigError> {
    let Some(text) = json_file::text(path)? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let providers: Ordered<OneOrMore> = json_file::parse(path, &text)?;
    let notes = notes(&json_file::parse(path, &text)?);
    Ok((
        providers
            .0
            .into_iter()
            .map(|(name, provider)| (name, provider.0))
            .collect(),
        notes,
    ))
}

fn notes(providers: &Map<String, Value>) -> Vec<Note> {
    let mut notes = Vec::new();
    for (name, value) in providers {
        let several = value
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or(std::slice::from_ref(value));
        for object in several.iter().filter_map(Value::as_object) {
            notes.extend(unknown_keys(
                "providers.json",
                &format!("{name}."),
                object,
                PROVIDER_KEYS,
            ));
            for (model, value) in object
                .get("models")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                if let Some(fields) = value.as_object() {
                    let above = format!("{name}.models.{model}.");
                    notes.extend(unknown_keys("providers.json", &above, fields, MODEL_KEYS));
                }
            }
        }
    }
    notes
}

/// The entries of an object in the order of the file.
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct OneOrMore(Vec<ProviderWire>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects;
        impl<'de> Visitor<'de> for Objects {
            type Value = OneOrMore;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or an array of objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ProviderWire::deserialize(MapAccessDeserializer::new(map))
                    .map(|one| OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut several = Vec::new();
                while let Some(one) = seq.next_element()? {
                    several.push(one);
                }
                Ok(OneOrMore(several))
            }
        }
        deserializer.deserialize_any(Objects)
    }
}
