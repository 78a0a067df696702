//! What happens in a turn, in OpenWOP's words.

use abide_core::NodeEvent;

use super::parts::{ChunkMeta, chunk_kind};
use super::{MessageChunkCame, Payload, Place, ProviderWasUsed};

/// What an event says about a turn, or the event if it is about something else.
pub(super) fn of(event: NodeEvent, node_id: String, place: Place) -> Result<Payload, (NodeEvent, String)> {
    Ok(match event {
        NodeEvent::MessageChunk(said) => Payload::MessageChunkCame(MessageChunkCame {
            node_id,
            run_id: place.run,
            chunk: said.chunk,
            is_last: said.is_last,
            meta: ChunkMeta {
                step: said.step,
                call: said.call,
                kind: chunk_kind(said.kind),
                broken_off: said.broken_off,
            },
        }),
        NodeEvent::ProviderUsage(used) => Payload::ProviderWasUsed(ProviderWasUsed {
            node_id,
            provider: used.provider,
            model: used.model,
            step: used.step,
            input_tokens: used.input_tokens,
            output_tokens: used.output_tokens,
            cache_read_tokens: used.cached_tokens,
            reasoning_tokens: used.reasoning_tokens,
            cost_micros: used.cost_micros,
        }),
        other => return Err((other, node_id)),
    })
}
