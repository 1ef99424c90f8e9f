//! The providers and models that are known without any configuration, as data, and the wires by name.

use crystal_protocol::session::Thinking;
use serde::Deserialize;

/// A model wire, by its name in `providers.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    OpenAi,
    Responses,
    Deepseek,
    Anthropic,
    Gemini,
    Ollama,
    Demo,
}

/// The wires that this build has adapters for.
pub(super) const SPOKEN: &[Protocol] = &[Protocol::Demo, Protocol::OpenAi];

impl Protocol {
    /// Its name on disk, and the adapter's.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Deepseek => "deepseek",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Demo => "demo",
        }
    }

    /// Where it is spoken unless configured otherwise; the demo is nowhere.
    pub(super) fn base_uri(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses => "https://api.openai.com/v1",
            Self::Deepseek => "https://api.deepseek.com",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::Ollama => "http://localhost:11434",
            Self::Demo => "",
        }
    }

    /// Whether its providers want a key unless configured otherwise.
    pub(super) fn wants_key(self) -> bool {
        !matches!(self, Self::Ollama | Self::Demo)
    }

    /// Whether this build has an adapter for it.
    pub(super) fn is_spoken(self) -> bool {
        SPOKEN.contains(&self)
    }
}

/// A provider of the built-in catalog.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) protocol: Protocol,
    pub(super) models: &'static [BuiltInModel],
}

/// A model of the built-in catalog; sizes in tokens.
pub(super) struct BuiltInModel {
    pub(super) name: &'static str,
    pub(super) context_window: u64,
    pub(super) max_tokens: Option<u64>,
    pub(super) image_input: bool,
    pub(super) thinking: &'static [Thinking],
}

const fn model(
    name: &'static str,
    (context_window, max_tokens): (u64, u64),
    image_input: bool,
    thinking: &'static [Thinking],
) -> BuiltInModel {
    BuiltInModel {
        name,
        context_window,
        max_tokens: Some(max_tokens),
        image_input,
        thinking,
    }
}

const fn demo(name: &'static str, image_input: bool) -> BuiltInModel {
    BuiltInModel {
        name,
        context_window: 200_000,
        max_tokens: None,
        image_input,
        thinking: &[],
    }
}

const ALWAYS: &[Thinking] = &[Thinking::Default];
const SWITCHED: &[Thinking] = &[Thinking::Off, Thinking::Default];
const GRADED: &[Thinking] = &[
    Thinking::Default,
    Thinking::Minimal,
    Thinking::Low,
    Thinking::Medium,
    Thinking::High,
];
const GRADED_OR_OFF: &[Thinking] = &[
    Thinking::Off,
    Thinking::Default,
    Thinking::Low,
    Thinking::Medium,
    Thinking::High,
];

/// In the order in which they are considered when nothing is chosen; the first model is a provider's default.
pub(super) const BUILT_INS: &[BuiltIn] = &[
    BuiltIn {
        name: "deepseek",
        protocol: Protocol::Deepseek,
        models: &[
            model("deepseek-chat", (128_000, 8_192), false, SWITCHED),
            model("deepseek-reasoner", (128_000, 65_536), false, ALWAYS),
        ],
    },
    BuiltIn {
        name: "openai",
        protocol: Protocol::Responses,
        models: &[
            model("gpt-5.1", (400_000, 128_000), true, GRADED_OR_OFF),
            model("gpt-5", (400_000, 128_000), true, GRADED),
            model("gpt-5-mini", (400_000, 128_000), true, GRADED),
            model("gpt-4.1", (1_047_576, 32_768), true, &[]),
        ],
    },
    BuiltIn {
        name: "anthropic",
        protocol: Protocol::Anthropic,
        models: &[
            model("claude-sonnet-4-5", (200_000, 64_000), true, GRADED_OR_OFF),
            model("claude-opus-4-5", (200_000, 64_000), true, GRADED_OR_OFF),
            model("claude-haiku-4-5", (200_000, 64_000), true, GRADED_OR_OFF),
        ],
    },
    BuiltIn {
        name: "gemini",
        protocol: Protocol::Gemini,
        models: &[
            model("gemini-2.5-pro", (1_048_576, 65_536), true, GRADED),
            model("gemini-2.5-flash", (1_048_576, 65_536), true, GRADED_OR_OFF),
        ],
    },
    // Its models are whatever is installed on the machine.
    BuiltIn {
        name: "ollama",
        protocol: Protocol::Ollama,
        models: &[],
    },
    BuiltIn {
        name: "demo",
        protocol: Protocol::Demo,
        models: &[
            demo("demo", true),
            demo("demo:fast", true),
            demo("demo:text", false),
        ],
    },
];
