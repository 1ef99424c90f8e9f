//! Facts that are the same on every machine, for tests.

use super::*;

/// A session in a plain directory.
pub(in crate::prompts) fn fixed() -> PromptFacts {
    PromptFacts {
        session: SessionFacts {
            session: SessionId::new("s-1"),
            workspace: PathBuf::from("/home/ada/engine"),
            directories: Vec::new(),
            approval: ApprovalMode::Edit,
            provider: "acme".to_owned(),
            model: "acme-1".to_owned(),
            disabled_tools: Vec::new(),
        },
        place: Place {
            workspace: PathBuf::from("/home/ada/engine"),
            git_root: None,
        },
        platform: "linux",
        architecture: "example64",
        os: "Example Linux 7".to_owned(),
        now: "2026-03-01T09:05:59+05:30[+05:30]".parse().unwrap(),
    }
}

/// A session in a git repository, with added directories and disabled tools.
pub(in crate::prompts) fn full() -> PromptFacts {
    let mut facts = fixed();
    facts.place.git_root = Some(PathBuf::from("/home/ada"));
    facts.session.directories = vec![PathBuf::from("/srv/shared"), PathBuf::from("/srv/notes")];
    facts.session.disabled_tools = vec!["glob".to_owned(), "grep".to_owned()];
    facts
}

/// A session with a model of this name.
pub(in crate::prompts) fn of_model(model: &str) -> PromptFacts {
    let mut facts = fixed();
    facts.session.model = model.to_owned();
    facts
}
