//! Links that delay packets by different times, reorder them, or send them again.

use anabranch_net::{Arq, Displacement, Impairments, Loss, MILLISECOND, Reorder, Steps};

use crate::file::key::{Fault, Key};
use crate::file::written;
use crate::model::number::LaterMs;
use crate::resolve::picoseconds::picoseconds;

/// How long a displaced packet waits for others, if the file does not say.
const HOLD: LaterMs = LaterMs::constant(100.0);

/// The losses of a link that may send what it loses again.
pub(super) fn arq(arq: Option<&written::Arq>, loss: Loss) -> Loss {
    let Some(arq) = arq else { return loss };
    Loss::Repeated(Box::new(Arq {
        loss,
        retries: arq.retries.get(),
        delay: picoseconds(arq.delay_ms.get(), MILLISECOND),
    }))
}

/// The delays of a link beyond its smallest; `more_delay` is that of its trace.
pub(super) fn impairments(
    key: &Key,
    link: &written::Link,
    more_delay: Option<Steps>,
) -> Result<Impairments, Fault> {
    let jitter_ms = link.jitter_ms.map_or(0.0, |jitter| jitter.get());
    let impairments = Impairments {
        more_delay,
        jitter: picoseconds(jitter_ms, MILLISECOND),
        overtakes: !link.keeps_order,
        reorder: reorder(&key.key("reorder"), link.reorder.as_ref())?,
    };
    let queued = matches!(
        link.queue,
        Some(written::Queue::Codel(_) | written::Queue::FqCodel(_) | written::Queue::DualPi2(_))
    );
    if queued && (impairments != Impairments::default() || link.arq.is_some()) {
        return Err(key.key("queue").fault(
            "expected another queue, or none of jitter_ms, keeps_order, reorder, arq and a column \
             delay_ms: CoDel, FQ-CoDel and DualPI2 have no links whose delay changes",
        ));
    }
    Ok(impairments)
}

fn reorder(key: &Key, reorder: Option<&written::Reorder>) -> Result<Option<Reorder>, Fault> {
    let Some(reorder) = reorder else {
        return Ok(None);
    };
    let ps = |ms: LaterMs| picoseconds(ms.get(), MILLISECOND);
    let by = match (reorder.packets, reorder.by_ms) {
        (Some(count), None) => Displacement::Packets {
            count: count.get(),
            hold: ps(reorder.hold_ms.unwrap_or(HOLD)),
        },
        (None, Some(_)) if reorder.hold_ms.is_some() => {
            let message = "expected no hold_ms beside by_ms, because such a packet waits for none";
            return Err(key.key("hold_ms").fault(message));
        }
        (None, Some(by)) => Displacement::Delay(ps(by)),
        (None, None) => return Err(key.fault("expected packets or by_ms, got neither")),
        (Some(_), Some(_)) => {
            return Err(key
                .key("by_ms")
                .fault("expected packets or by_ms, got both"));
        }
    };
    let share = reorder.share.get();
    Ok(Some(Reorder { share, by }))
}
