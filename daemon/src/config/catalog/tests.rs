//! What is chosen, and where keys come from.

use std::fs;

use crystal_protocol::{home::Home, session::Thinking};

use super::*;

const MINE: &str = r#"{
    // a server of the house
    "mine": {"protocol": "openai", "baseUri": "http://127.0.0.1:9/v1/", "apiKeyEnvironment": "MY_NAME",
             "apiKey": "{file:mine.key}", "models": {"zeta": {"imageInput": true}, "alpha": {"contextWindow": 10}}},
    "open": {"protocol": "openai", "baseUri": "http://127.0.0.1:8", "requiresApiKey": false},
    "two": [{"protocol": "openai", "models": {"a": {}}}, {"protocol": "anthropic", "models": {"b": {}}}]
}"#;

struct Fixture {
    _dir: tempfile::TempDir,
    paths: HomePaths,
}

fn home(providers: &str) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let paths = HomePaths::new(Home::locate(Some(dir.path())).unwrap());
    fs::write(paths.providers(), providers).unwrap();
    Fixture { _dir: dir, paths }
}

impl Fixture {
    fn catalog(&self) -> Catalog {
        let (catalog, notes) = Catalog::load(&self.paths).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        catalog
    }
}

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn chosen(
    catalog: &Catalog,
    provider: Option<&str>,
    model: Option<&str>,
    config: &Config,
) -> Result<String, String> {
    let chosen = catalog.choose(provider, model, config, &env(&[]));
    chosen
        .map(|(provider, model, _)| format!("{provider}/{model}"))
        .map_err(|error| error.to_string())
}

#[test]
fn with_nothing_configured_the_demo_answers_and_says_so() {
    let home = home("{}");
    let (provider, model, notes) = home
        .catalog()
        .choose(None, None, &Config::default(), &env(&[]))
        .unwrap();
    assert_eq!((provider.as_str(), model.as_str()), ("demo", "demo"));
    assert_eq!(notes[0].level, NoteLevel::Info);
    assert!(notes[0].text.contains("no language model"));
}

#[test]
fn what_is_asked_for_wins_over_configuration_and_that_over_keys() {
    let home = home(MINE);
    let catalog = home.catalog();
    let config = Config {
        provider: Some("demo".into()),
        model: Some("demo:fast".into()),
        ..Config::default()
    };
    assert_eq!(
        chosen(&catalog, None, None, &config).unwrap(),
        "demo/demo:fast"
    );
    assert_eq!(
        chosen(&catalog, None, Some("demo:text"), &config).unwrap(),
        "demo/demo:text"
    );
    assert_eq!(
        chosen(&catalog, Some("demo"), None, &config).unwrap(),
        "demo/demo:fast"
    );
    assert_eq!(
        chosen(&catalog, Some("mine"), None, &config).unwrap(),
        "mine/zeta"
    );
    assert_eq!(
        chosen(&catalog, None, Some("alpha"), &Config::default()).unwrap(),
        "mine/alpha"
    );
    assert_eq!(
        chosen(&catalog, None, Some("demo:fast"), &Config::default()).unwrap(),
        "demo/demo:fast"
    );
    // `mine` names a file for its key.
    assert_eq!(
        chosen(&catalog, None, None, &Config::default()).unwrap(),
        "mine/zeta"
    );
    let only_model = Config {
        model: Some("demo:fast".into()),
        ..Config::default()
    };
    assert_eq!(
        chosen(&catalog, Some("mine"), None, &only_model).unwrap(),
        "mine/zeta"
    );
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let home = home(MINE);
    let catalog = home.catalog();
    let config = Config::default();
    let error = chosen(&catalog, Some("nobody"), None, &config).unwrap_err();
    assert!(error.contains("demo") && error.contains("mine"), "{error}");
    let error = chosen(&catalog, Some("mine"), Some("x"), &config).unwrap_err();
    assert!(error.contains("zeta, alpha"), "{error}");
    assert_eq!(
        chosen(&catalog, Some("open"), Some("any"), &config).unwrap(),
        "open/any"
    );
    assert!(
        chosen(&catalog, Some("open"), None, &config)
            .unwrap_err()
            .contains("lists no models")
    );
    let error = chosen(&catalog, Some("anthropic"), None, &config).unwrap_err();
    assert!(
        error.contains("does not speak `anthropic`") && error.contains("demo, openai"),
        "{error}"
    );
    assert_eq!(
        chosen(&catalog, Some("two"), Some("a"), &config).unwrap(),
        "two/a"
    );
    assert!(
        chosen(&catalog, Some("two"), Some("b"), &config)
            .unwrap_err()
            .contains("anthropic")
    );
}

#[tokio::test]
async fn keys_come_from_the_environment_then_the_catalog_then_the_credentials() {
    let home = home(MINE);
    fs::write(home.paths.root().join("mine.key"), "from-file\n").unwrap();
    fs::write(
        home.paths.credentials(),
        r#"{"mine": "stored", "two": "stored-two"}"#,
    )
    .unwrap();
    let catalog = home.catalog();
    for (variables, expected) in [
        (
            env(&[
                ("MY_NAME", "1"),
                ("MINE_API_KEY", "2"),
                ("CRYSTAL_API_KEY", "3"),
            ]),
            "1",
        ),
        (
            env(&[
                ("MY_NAME", " "),
                ("MINE_API_KEY", "2"),
                ("CRYSTAL_API_KEY", "3"),
            ]),
            "2",
        ),
        (env(&[("CRYSTAL_API_KEY", "3")]), "3"),
        (env(&[]), "from-file"),
    ] {
        let (endpoint, model) = catalog.endpoint("mine", "zeta", &variables).await.unwrap();
        assert_eq!(endpoint.api_key.unwrap().expose(), expected);
        assert_eq!(
            (endpoint.base_uri.as_str(), endpoint.protocol.as_str()),
            ("http://127.0.0.1:9/v1", "openai")
        );
        assert!(model.image_input);
    }
    let (endpoint, _) = catalog.endpoint("two", "a", &env(&[])).await.unwrap();
    assert_eq!(endpoint.api_key.unwrap().expose(), "stored-two");
    assert_eq!(endpoint.base_uri, "https://api.openai.com/v1");
}

#[tokio::test]
async fn a_missing_key_names_the_variable_and_is_fine_where_none_is_needed() {
    let home = home(MINE);
    let catalog = home.catalog();
    let error = catalog
        .endpoint("two", "a", &env(&[]))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("set TWO_API_KEY"), "{error}");
    let (endpoint, model) = catalog.endpoint("open", "any", &env(&[])).await.unwrap();
    assert!(endpoint.api_key.is_none());
    assert_eq!(model.context_window, 128_000);
    assert!(
        catalog
            .endpoint("demo", "demo", &env(&[("CRYSTAL_API_KEY", "k")]))
            .await
            .unwrap()
            .0
            .api_key
            .is_none()
    );
    assert!(
        catalog
            .endpoint("gemini", "gemini-2.5-pro", &env(&[]))
            .await
            .is_err()
    );
}

#[test]
fn the_list_of_models_says_whether_keys_are_present() {
    let home = home(MINE);
    let catalog = home.catalog();
    let present = |model: &str, env: &BTreeMap<String, String>| {
        catalog
            .models(env)
            .into_iter()
            .find(|info| info.model == model)
            .unwrap()
            .key_present
    };
    assert!(present("demo:text", &env(&[])));
    assert!(!present("gpt-5", &env(&[])));
    assert!(present("gpt-5", &env(&[("OPENAI_API_KEY", "k")])));
    assert!(catalog.image_input("demo", "demo:fast") && !catalog.image_input("demo", "demo:text"));
    assert_eq!(catalog.context_window("demo", "demo"), 200_000);
    assert_eq!(catalog.context_window("gone", "gone"), 128_000);
}

#[test]
fn every_variable_that_may_hold_a_key_is_named() {
    let home = home(
        r#"{"x-1": {"protocol": "openai", "apiKey": "{env:OTHER}", "apiKeyEnvironment": "MINE"}}"#,
    );
    let names = home.catalog().key_variables();
    for name in [
        "OTHER",
        "MINE",
        "X_1_API_KEY",
        "OPENAI_API_KEY",
        "DEMO_API_KEY",
        "CRYSTAL_API_KEY",
    ] {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn an_overlay_changes_what_it_names_and_keeps_the_rest() {
    let home = home(
        r#"{"openai": {"protocol": "openai", "models": {"new": {"thinkingEfforts": ["low"], "thinkingCanDisable": true},
            "gpt-5": {"contextWindow": 7}}}}"#,
    );
    let catalog = home.catalog();
    assert_eq!(
        chosen(&catalog, Some("openai"), None, &Config::default()).unwrap(),
        "openai/new"
    );
    assert_eq!(catalog.context_window("openai", "gpt-5"), 7);
    assert!(catalog.image_input("openai", "gpt-5") && catalog.image_input("openai", "gpt-4.1"));
    let new = catalog
        .models(&env(&[]))
        .into_iter()
        .find(|info| info.model == "new")
        .unwrap();
    assert_eq!(
        new.thinking,
        [Thinking::Off, Thinking::Default, Thinking::Low]
    );
}

#[test]
fn mistakes_in_the_file_are_named() {
    for (providers, words) in [
        (r#"{"x": {}}"#, "`x.protocol`"),
        (r#"{"x": {"protocol": "smoke"}}"#, "one of"),
        (
            r#"{"x": {"protocol": "openai", "baseUri": "ftp://x"}}"#,
            "`x.baseUri`",
        ),
        (
            r#"{"x": {"protocol": "openai", "models": {"m": {"contextWindow": "big"}}}}"#,
            "`x.models.m.contextWindow`",
        ),
        (r#"{"x": []}"#, "`x`"),
        (r#"{"x": 1}"#, "an object or an array of objects"),
    ] {
        let error = Catalog::load(&home(providers).paths)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(words), "{providers}: {error}");
    }
    let (_, notes) = Catalog::load(&home(r#"{"ollama": {"baseUrl": "http://x"}}"#).paths).unwrap();
    assert!(notes[0].text.contains("`ollama.baseUri`"), "{notes:?}");
}
