//! Links whose delays do nothing, or more than is probably meant.

use anabranch_net::{Displacement, LinkConfig, Loss, MILLISECOND, Reorder, Time};

use crate::file::key::Key;
use crate::model::links::Link;
use crate::scenario::Scenario;

impl Scenario {
    /// Warns of keys of links that have no effect, and of jitter beyond a round trip.
    pub(super) fn link_warnings(&self) -> Vec<String> {
        let links = self.links.iter().enumerate();
        let warnings = links.flat_map(|(index, link)| {
            let all = [
                arq_warning(&link.config),
                order_warning(&link.config),
                self.jitter_warning(index, &link.config),
                self.reorder_warning(link),
            ];
            let key = Key::root("links").key(&link.name);
            let found = all.into_iter().flatten();
            found.map(move |(name, text)| format!("{key}.{name}: {text}"))
        });
        warnings.collect()
    }

    fn jitter_warning(&self, index: usize, link: &LinkConfig) -> Option<(&'static str, String)> {
        let paths = self.flows.iter().flat_map(|flow| &flow.paths);
        let over = paths.filter(|path| path.links.contains(&index));
        let rtts = over.map(|path| {
            let links = path.links.iter();
            let away: f64 = links.map(|&link| ms(self.links[link].config.delay)).sum();
            away + path.return_delay_ms.get()
        });
        let (jitter, rtt) = (
            ms(link.impairments.jitter),
            rtts.fold(f64::INFINITY, f64::min),
        );
        (jitter > rtt).then(|| {
            let text = format!(
                "delays of up to {jitter} ms are more than the round trip of {rtt} ms without \
                 queues: RTTs are mostly jitter: lower it, or raise delay_ms"
            );
            ("jitter_ms", text)
        })
    }

    fn reorder_warning(&self, link: &Link) -> Option<(&'static str, String)> {
        let Reorder { share, by } = link.config.impairments.reorder.as_ref()?;
        if *share > 0.5 {
            let text = "more packets are displaced than keep their place, which are the ones that \
                        overtake: give a share of at most 0.5";
            return Some(("reorder.share", text.to_owned()));
        }
        let Displacement::Packets { count, hold } = by else {
            return None;
        };
        let bits = f64::from(self.tcp.packet_bytes.get()) * 8.0;
        let (hold, needed) = (
            ms(*hold),
            f64::from(*count) * bits / link.rate_mbps() * 1e-3,
        );
        (hold < needed).then(|| {
            let text = format!(
                "the link transmits {count} packets in {needed:.3} ms: a packet that waits for \
                 {hold} ms is overtaken by fewer: raise it, or lower packets"
            );
            ("reorder.hold_ms", text)
        })
    }
}

fn arq_warning(link: &LinkConfig) -> Option<(&'static str, String)> {
    let Loss::Repeated(arq) = &link.loss else {
        return None;
    };
    (arq.loss.mean() == 0.0).then(|| {
        let text = "the link loses nothing that it could send again: give it loss, or drop arq";
        ("arq", text.to_owned())
    })
}

fn order_warning(link: &LinkConfig) -> Option<(&'static str, String)> {
    let impairments = &link.impairments;
    let differ = impairments.jitter > 0
        || impairments.more_delay.is_some()
        || matches!(link.loss, Loss::Repeated(_));
    (impairments.overtakes && !differ).then(|| {
        let text = "all packets have the same delay, so none overtakes another: give jitter_ms, \
                    arq, or a trace with delay_ms, or drop it";
        ("keeps_order", text.to_owned())
    })
}

fn ms(time: Time) -> f64 {
    time as f64 / MILLISECOND as f64
}
