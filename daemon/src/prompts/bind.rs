//! Putting values into the slots of a template.

/// The template with each `{{name}}` that `value` knows replaced by its value.
///
/// `value` gets the name as written, without the spaces and tabs inside the braces; names are of ASCII letters, digits and
/// `_`. All else stays byte for byte: unknown names, lone braces. Values are not looked into. Takes time linear in the
/// length of the template.
pub(super) fn bind(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut bound = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, slot) = rest.split_at(at);
        bound.push_str(before);
        let known = parse_slot(slot).and_then(|(name, after)| Some((value(name)?, after)));
        rest = match known {
            Some((value, after)) => {
                bound.push_str(&value);
                after
            }
            None => {
                // One brace only: of `{{{name}}`, the slot begins at the second.
                bound.push('{');
                &slot[1..]
            }
        };
    }
    bound.push_str(rest);
    bound
}

/// The names of all slots that a template has, as written.
#[cfg(test)]
pub(super) fn slots(template: &str) -> Vec<String> {
    let names = std::cell::RefCell::new(Vec::new());
    bind(template, |name| {
        names.borrow_mut().push(name.to_owned());
        None
    });
    names.into_inner()
}

/// The name in a slot that the text begins with, and what follows the slot.
fn parse_slot(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("{{")?.trim_start_matches(BLANK);
    let end = inner
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|end| *end > 0)?;
    let (name, after) = inner.split_at(end);
    Some((name, after.trim_start_matches(BLANK).strip_prefix("}}")?))
}

/// What may stand between the braces and the name.
const BLANK: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only_a(name: &str) -> Option<String> {
        name.eq_ignore_ascii_case("a")
            .then(|| "{{a}} {{b}}".to_owned())
    }

    #[test]
    fn slots_are_found_wherever_they_begin() {
        let cases = [
            ("{{a}}", "V"),
            ("{{ A\t}}", "V"),
            ("x{{a}}{{a}}y", "xVVy"),
            ("{{{a}}}", "{V}"),
            ("{{ {{a}} }}", "{{ V }}"),
            ("{{b}}{{a}}", "{{b}}V"),
            ("{{a}", "{{a}"),
            ("{{}}", "{{}}"),
            ("{{ }}", "{{ }}"),
            ("{{a b}}", "{{a b}}"),
            ("{{a\n}}", "{{a\n}}"),
            ("{{", "{{"),
            ("é{{a}}é", "éVé"),
            ("", ""),
        ];
        for (template, wanted) in cases {
            let bound = bind(template, |name| {
                name.eq_ignore_ascii_case("a").then(|| "V".to_owned())
            });
            assert_eq!(bound, wanted, "{template}");
        }
    }

    proptest! {
        #[test]
        fn unknown_slots_stay_byte_for_byte(text in r"(\{|\}|[ \ta-cé\n]|\{\{ ?[a-z_]{1,6} ?\}\}){0,40}") {
            prop_assert_eq!(bind(&text, |_| None), text);
        }

        #[test]
        fn text_without_slots_is_unchanged(text in "[^{]*") {
            prop_assert_eq!(bind(&text, |_| Some("V".to_owned())), text);
        }

        #[test]
        fn values_are_not_expanded_again(before in "[^{}]*", after in "[^{}]*", count in 0_usize..4) {
            let template = format!("{before}{}{after}", "{{a}}".repeat(count));
            let wanted = format!("{before}{}{after}", "{{a}} {{b}}".repeat(count));
            prop_assert_eq!(bind(&template, only_a), wanted);
        }

        #[test]
        fn a_value_and_the_text_around_it_make_no_slot(value in r"[{}a ]{0,8}") {
            let bound = bind("{{{a}}}", |_| Some(value.clone()));
            prop_assert_eq!(bound, format!("{{{value}}}"));
        }
    }
}
