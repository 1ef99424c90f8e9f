//! The ways to a provider: what is built in, overlaid by what `providers.json` says.

use std::{collections::BTreeMap, path::Path};

use super::{
    ConfigError, Model,
    builtin::{BuiltIn, Protocol, SPOKEN},
    credentials::KeySource,
    overlay::{ModelWire, ProviderWire},
};

/// Context window of a model of which nothing is known, in tokens.
pub(super) const UNKNOWN_CONTEXT_WINDOW: u64 = 128_000;

/// A provider of the catalog.
pub(super) struct Provider {
    pub(super) name: String,
    /// At least one. A model belongs to the first that lists it.
    pub(super) access: Vec<Access>,
}

/// One way to a provider.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) protocol: Protocol,
    pub(super) base_uri: Option<String>,
    pub(super) key: Option<KeySource>,
    pub(super) key_variable: Option<String>,
    requires_key: Option<bool>,
    pub(super) organization: Option<String>,
    pub(super) project: Option<String>,
    pub(super) token_limit_field: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) models: Vec<Model>,
}

impl Provider {
    pub(super) fn built_in(built_in: &BuiltIn) -> Self {
        let models = built_in.models.iter().map(|model| Model {
            provider: built_in.name.to_owned(),
            name: model.name.to_owned(),
            context_window: model.context_window,
            max_tokens: model.max_tokens,
            image_input: model.image_input,
            thinking: model.thinking.to_vec(),
        });
        let access = Access {
            models: models.collect(),
            ..Access::plain(built_in.protocol)
        };
        Self {
            name: built_in.name.to_owned(),
            access: vec![access],
        }
    }

    pub(super) fn lists(&self, model: &str) -> bool {
        self.access
            .iter()
            .any(|access| access.model(model).is_some())
    }

    /// The way to a model: the first that lists it, else the first that lists none at all.
    pub(super) fn access(&self, model: &str) -> Result<&Access, ConfigError> {
        let listing = self
            .access
            .iter()
            .find(|access| access.model(model).is_some());
        let found = listing.or_else(|| self.access.iter().find(|access| access.models.is_empty()));
        found.ok_or_else(|| ConfigError::UnknownModel {
            provider: self.name.clone(),
            name: model.to_owned(),
            known: listed(
                self.access
                    .iter()
                    .flat_map(|access| &access.models)
                    .map(|model| model.name.as_str()),
            ),
        })
    }
}

impl Access {
    fn plain(protocol: Protocol) -> Self {
        Self {
            protocol,
            base_uri: None,
            key: None,
            key_variable: None,
            requires_key: None,
            organization: None,
            project: None,
            token_limit_field: None,
            headers: BTreeMap::new(),
            models: Vec::new(),
        }
    }

    pub(super) fn model(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    pub(super) fn requires_key(&self) -> bool {
        self.requires_key.unwrap_or(self.protocol.wants_key())
    }

    pub(super) fn spoken(&self, provider: &str) -> Result<(), ConfigError> {
        if self.protocol.is_spoken() {
            return Ok(());
        }
        let spoken = listed(SPOKEN.iter().map(|protocol| protocol.name()));
        Err(ConfigError::NotSpoken {
            provider: provider.to_owned(),
            protocol: self.protocol.name(),
            spoken,
        })
    }
}

/// Makes catalog entries of what `providers.json` says of one provider.
pub(super) struct Reader<'a> {
    pub(super) file: &'a Path,
    pub(super) home: &'a Path,
    pub(super) provider: &'a str,
}

impl Reader<'_> {
    pub(super) fn accesses(
        &self,
        before: Option<&Access>,
        objects: Vec<ProviderWire>,
    ) -> Result<Vec<Access>, ConfigError> {
        let mut before = before.cloned();
        let mut accesses = Vec::new();
        for object in objects {
            accesses.push(self.access(before.as_ref(), object)?);
            // The built-in models belong to the first object; the others list their own.
            if let Some(before) = &mut before {
                before.models.clear();
            }
        }
        if accesses.is_empty() {
            Err(self.wrong("", "an object or an array of at least one"))
        } else {
            Ok(accesses)
        }
    }

    fn access(&self, before: Option<&Access>, wire: ProviderWire) -> Result<Access, ConfigError> {
        let protocol = wire.protocol.or(before.map(|before| before.protocol));
        let protocol = protocol.ok_or_else(|| {
            self.wrong(
                ".protocol",
                "given: openai, responses, deepseek, anthropic, gemini, ollama or demo",
            )
        })?;
        let mut access = before.cloned().unwrap_or_else(|| Access::plain(protocol));
        let built_in = std::mem::take(&mut access.models);
        access.protocol = protocol;
        if let Some(base) = wire.base_uri {
            let base = base.trim().trim_end_matches('/');
            if !(base.starts_with("http://") || base.starts_with("https://")) {
                return Err(self.wrong(
                    ".baseUri",
                    "an address that begins with http:// or https://",
                ));
            }
            access.base_uri = Some(base.to_owned());
        }
        access.key = wire.api_key.map(|text| KeySource::parse(&text, self.home));
        access.key_variable = wire.api_key_environment;
        access.requires_key = wire.requires_api_key;
        access.organization = wire.organization;
        access.project = wire.project;
        access.token_limit_field = wire.token_limit;
        access.headers = wire.headers;
        for (name, model) in wire.models.0 {
            let known = built_in.iter().find(|model| model.name == name);
            access.models.push(self.model(name, &model, known));
        }
        for model in built_in {
            if access.model(&model.name).is_none() {
                access.models.push(model);
            }
        }
        Ok(access)
    }

    fn model(&self, name: String, wire: &ModelWire, known: Option<&Model>) -> Model {
        let mut model = known
            .cloned()
            .unwrap_or_else(|| unknown_model(self.provider, &name));
        model.context_window = wire.context_window.unwrap_or(model.context_window);
        model.max_tokens = wire.max_tokens.or(model.max_tokens);
        model.image_input = wire.image_input.unwrap_or(model.image_input);
        model.thinking = wire.gears().unwrap_or(model.thinking);
        model
    }

    fn wrong(&self, key: &str, expected: &str) -> ConfigError {
        let key = format!("{}{key}", self.provider);
        ConfigError::WrongType {
            path: self.file.to_owned(),
            key,
            expected: expected.to_owned(),
        }
    }
}

/// A model of which nothing but its name is known.
pub(super) fn unknown_model(provider: &str, name: &str) -> Model {
    Model {
        provider: provider.to_owned(),
        name: name.to_owned(),
        context_window: UNKNOWN_CONTEXT_WINDOW,
        max_tokens: None,
        image_input: false,
        thinking: Vec::new(),
    }
}

/// Names in a sentence.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
