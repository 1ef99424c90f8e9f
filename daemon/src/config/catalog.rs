//! The providers and models: the built-in ones overlaid by `providers.json`, the choice among them, and their keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use crystal_protocol::{
    item::{Note, NoteLevel},
    rpc::ModelInfo,
};

use super::{
    Config, ConfigError, Endpoint, Model, Secret,
    access::{Access, Provider, Reader, UNKNOWN_CONTEXT_WINDOW, listed, unknown_model},
    builtin::{BUILT_INS, Protocol},
    credentials::{self, KeySource},
    overlay,
};
use crate::home::HomePaths;

#[cfg(test)]
mod tests;

/// The provider that needs nothing.
const DEMO: &str = "demo";

/// The providers and models of a home, as they were at start. Keys are looked up anew for each turn.
pub struct Catalog {
    providers: Vec<Provider>,
    credentials: PathBuf,
    /// Providers that had a key in `credentials.json` at start.
    stored_keys: BTreeSet<String>,
}

impl Catalog {
    /// Reads `providers.json` and `credentials.json`; absent files say nothing. Blocks: call it before the runtime serves
    /// anybody, or off it.
    ///
    /// # Errors
    /// When a file cannot be read, is no JSON, or has a wrong value (key and expected type are named).
    pub fn load(paths: &HomePaths) -> Result<(Self, Vec<Note>), ConfigError> {
        let file = paths.providers();
        let (overlays, notes) = overlay::read(&file)?;
        let mut providers: Vec<Provider> = BUILT_INS.iter().map(Provider::built_in).collect();
        for (name, objects) in overlays {
            let base = providers.iter().position(|provider| provider.name == name);
            let before = base
                .and_then(|at| providers.get(at))
                .and_then(|provider| provider.access.first());
            let reader = Reader {
                file: &file,
                home: paths.root(),
                provider: &name,
            };
            let access = reader.accesses(before, objects)?;
            let provider = Provider { name, access };
            match base.and_then(|at| providers.get_mut(at)) {
                Some(place) => *place = provider,
                None => providers.push(provider),
            }
        }
        let credentials = paths.credentials();
        let stored_keys = credentials::stored(&credentials)?.into_keys().collect();
        Ok((
            Self {
                providers,
                credentials,
                stored_keys,
            },
            notes,
        ))
    }

    /// The provider and model of a new session: what was asked for, else what is configured, else the first provider
    /// with a key, else the demo, with a note that says so. A provider's default model is its first.
    ///
    /// # Errors
    /// When there is no such provider or model (the known ones are named), or this build does not speak its protocol.
    pub fn choose(
        &self,
        provider: Option<&str>,
        model: Option<&str>,
        config: &Config,
        env: &BTreeMap<String, String>,
    ) -> Result<(String, String, Vec<Note>), ConfigError> {
        let mut notes = Vec::new();
        let wanted = model.or(config.model.as_deref().filter(|_| provider.is_none()));
        let chosen = match provider.or(config.provider.as_deref()) {
            Some(name) => self.provider(name)?,
            None => match self.unnamed(wanted, env) {
                Some(provider) => provider,
                None => {
                    notes.push(demo_note());
                    self.provider(DEMO)?
                }
            },
        };
        // A configured model belongs to the configured provider, and to no other that does not list it.
        let configured = config.model.as_deref().filter(|model| {
            config
                .provider
                .as_deref()
                .map_or_else(|| chosen.lists(model), |name| name == chosen.name)
        });
        let model = match model.or(configured) {
            Some(model) => model.to_owned(),
            None => {
                let first = chosen
                    .access
                    .iter()
                    .flat_map(|access| &access.models)
                    .next();
                first
                    .map(|model| model.name.clone())
                    .ok_or_else(|| ConfigError::NoModelNamed {
                        provider: chosen.name.clone(),
                    })?
            }
        };
        chosen.access(&model)?.spoken(&chosen.name)?;
        Ok((chosen.name.clone(), model, notes))
    }

    /// Where a model is and with which key it is used. Files are read off the runtime.
    ///
    /// # Errors
    /// As [`Catalog::choose`], and when a key is needed and none is found, or a file that should hold it cannot be read.
    pub async fn endpoint(
        &self,
        provider: &str,
        model: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<(Endpoint, Model), ConfigError> {
        let provider = self.provider(provider)?;
        let access = provider.access(model)?;
        access.spoken(&provider.name)?;
        let api_key = if access.protocol == Protocol::Demo {
            None
        } else {
            self.key(provider, access, env).await?
        };
        let endpoint = Endpoint {
            protocol: access.protocol.name().to_owned(),
            provider: provider.name.clone(),
            base_uri: access
                .base_uri
                .as_deref()
                .unwrap_or(access.protocol.base_uri())
                .to_owned(),
            api_key,
            headers: access.headers.clone().into_iter().collect(),
            organization: access.organization.clone(),
            project: access.project.clone(),
            token_limit_field: access.token_limit_field.clone(),
        };
        let model = access
            .model(model)
            .cloned()
            .unwrap_or_else(|| unknown_model(&provider.name, model));
        Ok((endpoint, model))
    }

    /// Whether a model takes images; one that is not known does not.
    pub fn image_input(&self, provider: &str, model: &str) -> bool {
        self.find(provider, model)
            .is_some_and(|model| model.image_input)
    }

    /// The size of a model's context window, in tokens; 128,000 for one that is not known.
    pub fn context_window(&self, provider: &str, model: &str) -> u64 {
        self.find(provider, model)
            .map_or(UNKNOWN_CONTEXT_WINDOW, |model| model.context_window)
    }

    /// All models, and whether the keys they need were found: in `env`, in `providers.json` (a key file that it names is
    /// taken to be there), or in `credentials.json` as it was at start.
    pub fn models(&self, env: &BTreeMap<String, String>) -> Vec<ModelInfo> {
        let mut infos = Vec::new();
        for provider in &self.providers {
            for access in &provider.access {
                let key_present = !access.requires_key() || self.has_key(provider, access, env);
                infos.extend(access.models.iter().map(|model| ModelInfo {
                    provider: provider.name.clone(),
                    model: model.name.clone(),
                    context_window: model.context_window,
                    image_input: model.image_input,
                    thinking: model.thinking.clone(),
                    key_present,
                }));
            }
        }
        infos
    }

    /// Every variable that may hold a key; no child process may see them.
    pub fn key_variables(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for provider in &self.providers {
            for access in &provider.access {
                names.extend(credentials::variables(
                    &provider.name,
                    access.key_variable.as_deref(),
                ));
                if let Some(KeySource::Variable(name)) = &access.key {
                    names.insert(name.clone());
                }
            }
        }
        names
    }

    fn provider(&self, name: &str) -> Result<&Provider, ConfigError> {
        let found = self.providers.iter().find(|provider| provider.name == name);
        found.ok_or_else(|| ConfigError::UnknownProvider {
            name: name.to_owned(),
            known: listed(self.providers.iter().map(|provider| provider.name.as_str())),
        })
    }

    /// The provider when none is named: of those that list the wanted model, else of all, the first that is ready.
    fn unnamed(&self, wanted: Option<&str>, env: &BTreeMap<String, String>) -> Option<&Provider> {
        let with_key = |provider: &Provider| {
            let mut spoken = provider
                .access
                .iter()
                .filter(|access| access.protocol.is_spoken());
            spoken.any(|access| {
                access.protocol != Protocol::Demo && self.has_key(provider, access, env)
            })
        };
        if let Some(model) = wanted {
            let listing = || {
                self.providers
                    .iter()
                    .filter(|provider| provider.lists(model))
            };
            let found = listing()
                .find(|provider| with_key(provider))
                .or_else(|| listing().next());
            if found.is_some() {
                return found;
            }
        }
        self.providers.iter().find(|provider| with_key(provider))
    }

    fn find(&self, provider: &str, model: &str) -> Option<&Model> {
        self.provider(provider)
            .ok()?
            .access(model)
            .ok()?
            .model(model)
    }

    /// Whether a key is there, as far as can be said without reading a file.
    fn has_key(
        &self,
        provider: &Provider,
        access: &Access,
        env: &BTreeMap<String, String>,
    ) -> bool {
        let variables = credentials::variables(&provider.name, access.key_variable.as_deref());
        let in_catalog = match &access.key {
            Some(KeySource::Variable(name)) => credentials::variable(env, name).is_some(),
            Some(KeySource::File(_) | KeySource::Literal(_)) => true,
            None => false,
        };
        in_catalog
            || variables
                .iter()
                .any(|name| credentials::variable(env, name).is_some())
            || self.stored_keys.contains(&provider.name)
    }

    async fn key(
        &self,
        provider: &Provider,
        access: &Access,
        env: &BTreeMap<String, String>,
    ) -> Result<Option<Secret>, ConfigError> {
        let variables = credentials::variables(&provider.name, access.key_variable.as_deref());
        if let Some(key) = variables
            .iter()
            .find_map(|name| credentials::variable(env, name))
        {
            return Ok(Some(key));
        }
        if let Some(source) = access.key.clone() {
            let env = match &source {
                KeySource::Variable(_) => env.clone(),
                KeySource::File(_) | KeySource::Literal(_) => BTreeMap::new(),
            };
            if let Some(key) = tokio::task::spawn_blocking(move || source.read(&env)).await?? {
                return Ok(Some(key));
            }
        }
        let file = self.credentials.clone();
        let mut stored = tokio::task::spawn_blocking(move || credentials::stored(&file)).await??;
        match stored.remove(&provider.name) {
            Some(key) => Ok(Some(key)),
            None if !access.requires_key() => Ok(None),
            None => Err(ConfigError::NoKey {
                provider: provider.name.clone(),
                variable: variables
                    .into_iter()
                    .next()
                    .unwrap_or_else(|| credentials::ANY_PROVIDER.to_owned()),
            }),
        }
    }
}

fn demo_note() -> Note {
    let text = "No provider is configured and no API key was found, so the built-in demo answers: it is no language \
                model, it only obeys simple commands. Set a provider in config.json or a key to use a real one.";
    Note {
        level: NoteLevel::Info,
        text: text.to_owned(),
    }
}
