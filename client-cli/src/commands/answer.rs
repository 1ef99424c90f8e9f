//! `answer`: the answer to a question of the model's.

use anyhow::{Context as _, bail};
use clap::Args;
use crystal_protocol::{
    ids::QuestionId,
    question::{Question, QuestionPart},
    rpc::{
        InquiryListParams, QuestionDismiss, QuestionDismissParams, QuestionList, QuestionRespond,
        QuestionRespondParams,
    },
};

use crate::{context::Context, output::SUCCESS, session_ref};

/// Answers a question of the model's.
///
/// An ANSWER is a label on offer, `#N` for the Nth one, or a text of your own. With one question all ANSWERs belong
/// to it; with several, each has one ANSWER in order, and a JSON array of texts stands for more than one choice.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The session.
    session: String,
    /// The question.
    id: String,
    /// The answers.
    #[arg(required_unless_present = "dismiss")]
    answer: Vec<String>,
    /// Sends the question away unanswered.
    #[arg(long, conflicts_with = "answer")]
    dismiss: bool,
}

pub(crate) async fn answer(cx: &Context, args: AnswerArgs) -> anyhow::Result<u8> {
    let client = cx.client().await?;
    let session = session_ref::resolve(&client, Some(&args.session)).await?;
    let id = QuestionId::new(args.id);
    if args.dismiss {
        let params = QuestionDismissParams { session, id };
        let done = client.call::<QuestionDismiss>(params).await?;
        cx.out.result(&done, |_| "dismissed".to_owned()).await?;
        return Ok(SUCCESS);
    }
    let params = InquiryListParams {
        session: Some(session.clone()),
    };
    let open = client.call::<QuestionList>(params).await?.questions;
    let question = open.iter().find(|open| open.question.id == id);
    let answers = match question {
        Some(open) => answers_to(&open.question, args.answer)?,
        // It is answered already, or never was: the daemon says which.
        None => vec![args.answer],
    };
    let params = QuestionRespondParams {
        session,
        id,
        answers,
    };
    let done = client.call::<QuestionRespond>(params).await?;
    cx.out.result(&done, |_| "answered".to_owned()).await?;
    Ok(SUCCESS)
}

fn answers_to(question: &Question, words: Vec<String>) -> anyhow::Result<Vec<Vec<String>>> {
    let parts = &question.questions;
    if let [only] = parts.as_slice() {
        let answer = words.into_iter().map(|word| label(only, word));
        return Ok(vec![answer.collect::<anyhow::Result<_>>()?]);
    }
    if words.len() != parts.len() {
        bail!(
            "there are {} questions; give one ANSWER for each, in order",
            parts.len()
        );
    }
    let answer = |(part, word): (&QuestionPart, String)| {
        let words: Vec<String> = if word.starts_with('[') {
            serde_json::from_str(&word)
                .context("an ANSWER that begins with [ is a JSON array of texts")?
        } else {
            vec![word]
        };
        words.into_iter().map(|word| label(part, word)).collect()
    };
    parts.iter().zip(words).map(answer).collect()
}

fn label(part: &QuestionPart, word: String) -> anyhow::Result<String> {
    let number = word.strip_prefix('#').and_then(|n| n.parse::<usize>().ok());
    let Some(number) = number else {
        return Ok(word);
    };
    let option = number.checked_sub(1).and_then(|n| part.options.get(n));
    let option = option.with_context(|| {
        format!(
            "{:?} has no answer {word}; there are {}",
            part.header,
            part.options.len()
        )
    })?;
    Ok(option.label.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(parts: usize) -> Question {
        let part = json!({
            "header": "H", "text": "T?", "multiple": true, "custom": true,
            "options": [{"label": "red"}, {"label": "blue"}],
        });
        let parts = vec![part; parts];
        serde_json::from_value(json!({"id": "q1", "callId": "c1", "questions": parts})).unwrap()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_question_takes_all_words_and_numbers_stand_for_labels() {
        let answers = answers_to(&question(1), words(&["#2", "red", "my own"])).unwrap();
        assert_eq!(answers, [words(&["blue", "red", "my own"])]);
        assert!(answers_to(&question(1), words(&["#3"])).is_err());
        assert!(answers_to(&question(1), words(&["#0"])).is_err());
    }

    #[test]
    fn several_questions_take_a_word_each() {
        let answers = answers_to(&question(2), words(&["#1", "[\"#2\",\"own\"]"])).unwrap();
        assert_eq!(answers, [words(&["red"]), words(&["blue", "own"])]);
        assert!(answers_to(&question(2), words(&["#1"])).is_err());
    }
}
