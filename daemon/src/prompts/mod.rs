//! System text.
pub struct PromptFacts;
impl PromptFacts {
    pub async fn gather(
        _s: &crate::store::record::Settings,
        _id: &crystal_protocol::ids::SessionId,
        _d: &[String],
    ) -> Self {
        Self
    }
}
pub fn compose(_m: crystal_protocol::session::Mode, _f: &PromptFacts) -> String {
    String::new()
}
