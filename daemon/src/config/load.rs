//! `config.json`: what the daemon does unless a session says otherwise. Read once at start, never rewritten here.

use std::{path::Path, time::Duration};

use crystal_protocol::{
    approval::ApprovalMode,
    item::{Note, NoteLevel},
    rpc::{TimeoutSetting, TurnLimits},
    session::Thinking,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{ConfigError, json_file};
use crate::{home::HomePaths, limits};

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// The provider of new sessions.
    pub provider: Option<String>,
    /// The model of new sessions.
    pub model: Option<String>,
    /// The approval mode of new sessions.
    pub approval: ApprovalMode,
    /// The thinking gear of new sessions.
    pub thinking: Thinking,
    /// Whether a workspace must be trusted before a session works in it.
    pub workspace_trust: bool,
    /// How long a foreground command may run.
    pub bash_timeout: TimeoutSetting,
    /// How long a background task may run.
    pub background_bash_timeout: TimeoutSetting,
    /// Bounds on each turn.
    pub limits: TurnLimits,
    /// The part of a model's context window that may be full before older turns are summarised, 0 to 1.
    pub compaction_threshold: f64,
    /// The daemon exits after this long with nothing alive; never when `None`.
    pub idle_exit: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            provider: None,
            model: None,
            approval: ApprovalMode::default(),
            thinking: Thinking::default(),
            workspace_trust: true,
            bash_timeout: TimeoutSetting::Seconds(120),
            background_bash_timeout: TimeoutSetting::Seconds(10_800),
            limits: TurnLimits::default(),
            compaction_threshold: limits::COMPACTION_THRESHOLD,
            idle_exit: Some(limits::IDLE_EXIT),
        }
    }
}

/// The keys whose value this build reads; an absent one keeps its default.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    provider: Option<String>,
    model: Option<String>,
    approval: Option<ApprovalMode>,
    thinking_effort: Option<Thinking>,
    workspace_trust: Option<bool>,
    compaction_threshold: Option<f64>,
    #[serde(deserialize_with = "present")]
    bash_timeout_seconds: Option<TimeoutSetting>,
    #[serde(deserialize_with = "present")]
    background_bash_timeout_seconds: Option<TimeoutSetting>,
    limits: Option<TurnLimits>,
    #[serde(deserialize_with = "present")]
    idle_exit_minutes: Option<IdleExit>,
}

/// `null` is a value of its own here, unlike absence.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

struct IdleExit(Option<Duration>);

impl<'de> Deserialize<'de> for IdleExit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let refuse = || serde::de::Error::custom("a number of minutes, 0 or more, or null");
        let minutes: Option<f64> =
            Deserialize::deserialize(deserializer).map_err(|_: D::Error| refuse())?;
        let duration = minutes
            .map(|minutes| Duration::try_from_secs_f64(minutes * 60.0))
            .transpose();
        duration.map(Self).map_err(|_| refuse())
    }
}

/// What may stand at a key.
#[derive(Clone, Copy)]
enum Shape {
    /// Checked by [`Wire`].
    Read,
    Switch,
    Number,
    Text,
    Texts,
    Object,
    /// A key of old versions; its value means nothing.
    Old,
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Read | Self::Old => true,
            Self::Switch => value.is_boolean() || value.is_null(),
            Self::Number => value.is_number() || value.is_null(),
            Self::Text => value.is_string() || value.is_null(),
            Self::Texts => {
                value.is_null()
                    || value
                        .as_array()
                        .is_some_and(|list| list.iter().all(Value::is_string))
            }
            Self::Object => value.is_object() || value.is_null(),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Read | Self::Old => "a value",
            Self::Switch => "true or false",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Texts => "an array of strings",
            Self::Object => "an object",
        }
    }
}

const KEYS: &[(&str, Shape)] = &[
    ("provider", Shape::Read),
    ("model", Shape::Read),
    ("approval", Shape::Read),
    ("approvalModel", Shape::Object),
    ("imageModel", Shape::Object),
    ("thinkingEffort", Shape::Read),
    ("skills", Shape::Switch),
    ("externalTools", Shape::Switch),
    ("plugins", Shape::Switch),
    ("workspaceTrust", Shape::Read),
    ("externalToolApproval", Shape::Object),
    ("compactionThreshold", Shape::Number),
    ("bashTimeoutSeconds", Shape::Read),
    ("backgroundBashTimeoutSeconds", Shape::Read),
    ("exportDirectory", Shape::Text),
    ("exec", Shape::Object),
    ("limits", Shape::Read),
    ("websocketOrigins", Shape::Texts),
    ("nameSessions", Shape::Switch),
    ("verboseTools", Shape::Switch),
    ("verboseThinking", Shape::Switch),
    ("idleExitMinutes", Shape::Read),
    ("promptSet", Shape::Old),
    ("promptAttachments", Shape::Old),
];

const LIMIT_KEYS: &[&str] = &["modelCalls", "toolCalls", "durationMs"];

impl Config {
    /// Reads `config.json`; an absent file is the defaults. Blocks: call it before the runtime serves anybody, or off it.
    ///
    /// # Errors
    /// When the file cannot be read, is no JSON, or has a value of the wrong type (key and expected type are named).
    pub fn load(paths: &HomePaths) -> Result<(Self, Vec<Note>), ConfigError> {
        let path = paths.config();
        match json_file::text(&path)? {
            Some(text) => Self::parse(&path, &text),
            None => Ok((Self::default(), Vec::new())),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<(Self, Vec<Note>), ConfigError> {
        let all: Map<String, Value> = json_file::parse(path, text)?;
        for (key, shape) in KEYS {
            if all.get(*key).is_some_and(|value| !shape.fits(value)) {
                let expected = shape.in_words().to_owned();
                return Err(ConfigError::WrongType {
                    path: path.to_owned(),
                    key: (*key).to_owned(),
                    expected,
                });
            }
        }
        let wire: Wire = json_file::parse(path, text)?;
        let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
        let mut notes = unknown_keys("config.json", "", &all, &known);
        if let Some(Value::Object(limits)) = all.get("limits") {
            notes.extend(unknown_keys("config.json", "limits.", limits, LIMIT_KEYS));
        }
        let default = Self::default();
        let config = Self {
            provider: wire.provider,
            model: wire.model,
            approval: wire.approval.unwrap_or(default.approval),
            thinking: wire.thinking_effort.unwrap_or(default.thinking),
            workspace_trust: wire.workspace_trust.unwrap_or(default.workspace_trust),
            bash_timeout: wire.bash_timeout_seconds.unwrap_or(default.bash_timeout),
            background_bash_timeout: wire
                .background_bash_timeout_seconds
                .unwrap_or(default.background_bash_timeout),
            limits: wire.limits.unwrap_or(default.limits),
            compaction_threshold: wire
                .compaction_threshold
                .unwrap_or(default.compaction_threshold)
                .clamp(0.1, 1.0),
            idle_exit: wire
                .idle_exit_minutes
                .map_or(default.idle_exit, |idle| idle.0),
        };
        Ok((config, notes))
    }
}

/// A note for each key of `object` that is not known, with the nearest known one. `above` are the keys around it, with a dot.
pub(super) fn unknown_keys(
    file: &str,
    above: &str,
    object: &Map<String, Value>,
    known: &[&str],
) -> Vec<Note> {
    let unknown = object.keys().filter(|key| !known.contains(&key.as_str()));
    unknown
        .map(|key| {
            let mut text =
                format!("{file}: the key `{above}{key}` is not known and has no effect.");
            if let Some(near) = nearest(key, known) {
                text.push_str(&format!(" Did you mean `{above}{near}`?"));
            }
            Note {
                level: NoteLevel::Warning,
                text,
            }
        })
        .collect()
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let near = known
        .iter()
        .map(|known| (distance(&name, &known.to_lowercase()), *known))
        .min()?;
    // Further apart than half the name they share nothing that a typist would recognise.
    (near.0 <= (name.chars().count() / 2).max(1)).then_some(near.1)
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let changed = diagonal + usize::from(x != *y);
            diagonal = *cell;
            left = changed.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Config, Vec<Note>), String> {
        Config::parse(Path::new("/h/config.json"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_that_is_read_takes_effect() {
        let (config, notes) = parse(
            r#"{"provider": "p", "model": "m", "approval": "autoedit", "thinkingEffort": "high", "workspaceTrust": false,
                "bashTimeoutSeconds": null, "backgroundBashTimeoutSeconds": 5, "idleExitMinutes": 0.5,
                "limits": {"modelCalls": 3}, "promptSet": "x"}"#,
        )
        .unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(
            (config.provider.as_deref(), config.model.as_deref()),
            (Some("p"), Some("m"))
        );
        assert_eq!(
            (config.approval, config.thinking),
            (ApprovalMode::Edit, Thinking::High)
        );
        assert!(!config.workspace_trust);
        assert_eq!(config.bash_timeout, TimeoutSetting::Unlimited);
        assert_eq!(config.background_bash_timeout, TimeoutSetting::Seconds(5));
        assert_eq!(config.idle_exit, Some(Duration::from_secs(30)));
        assert_eq!(config.limits.model_calls, Some(3));
    }

    #[test]
    fn null_idle_exit_means_never_and_absence_the_default() {
        assert_eq!(
            parse(r#"{"idleExitMinutes": null}"#).unwrap().0.idle_exit,
            None
        );
        assert_eq!(
            parse("{}").unwrap().0.idle_exit,
            Some(Duration::from_secs(1800))
        );
    }

    #[test]
    fn unknown_keys_are_noted_with_the_nearest_known_one() {
        let (_, notes) =
            parse(r#"{"workspacetrusts": true, "zzzz": 1, "limits": {"modelCall": 1}}"#).unwrap();
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert!(
            texts[0].contains("`workspacetrusts`") && texts[0].contains("`workspaceTrust`"),
            "{texts:?}"
        );
        assert!(!texts[1].contains("mean"), "{texts:?}");
        assert!(texts[2].contains("`limits.modelCalls`"), "{texts:?}");
    }

    #[test]
    fn wrong_types_name_key_and_expected_type() {
        for (text, key, expected) in [
            (
                r#"{"workspaceTrust": "yes"}"#,
                "`workspaceTrust`",
                "true or false",
            ),
            (
                r#"{"idleExitMinutes": "soon"}"#,
                "`idleExitMinutes`",
                "a number of minutes",
            ),
            (
                r#"{"idleExitMinutes": -1}"#,
                "`idleExitMinutes`",
                "a number of minutes",
            ),
            (r#"{"approval": "sometimes"}"#, "`approval`", "one of"),
            (
                r#"{"limits": {"modelCalls": "x"}}"#,
                "`limits.modelCalls`",
                "a whole number",
            ),
            (
                r#"{"bashTimeoutSeconds": 0}"#,
                "`bashTimeoutSeconds`",
                "a number of seconds",
            ),
            (
                r#"{"websocketOrigins": "x"}"#,
                "`websocketOrigins`",
                "an array of strings",
            ),
            ("[]", "the whole file", "an object"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(key) && error.contains(expected),
                "{text}: {error}"
            );
        }
    }
}
