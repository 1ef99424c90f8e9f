//! The protocol's version. Source: protocol/README.md, "Versions".

use crate::rpc::ProtocolRange;

/// The versions that this build speaks.
pub const SUPPORTED: ProtocolRange = ProtocolRange { min: 1, max: 1 };

/// The newest version that both speak, or `None` when the ranges do not meet.
pub fn negotiate(client: ProtocolRange) -> Option<u32> {
    let newest = client.max.min(SUPPORTED.max);
    (client.min <= client.max && newest >= client.min && newest >= SUPPORTED.min).then_some(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_wins_and_disjoint_ranges_do_not_meet() {
        assert_eq!(negotiate(ProtocolRange { min: 1, max: 1 }), Some(1));
        assert_eq!(negotiate(ProtocolRange { min: 1, max: 9 }), Some(1));
        assert_eq!(negotiate(ProtocolRange { min: 2, max: 9 }), None);
        assert_eq!(negotiate(ProtocolRange { min: 1, max: 0 }), None);
    }
}
