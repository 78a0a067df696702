//! What happens in a turn, in OpenWOP's words.

use abide_core::event::{ChunkEnd, MessageChunk, ProviderUsage};

use super::parts::{ChunkMeta, chunk_kind, finish_reason};
use super::{MessageChunkCame, Place, ProviderWasUsed};

/// A stretch of an answer.
pub(super) fn chunk(said: MessageChunk, node_id: String, place: Place) -> MessageChunkCame {
    let (stop_reason, model, usage) = match said.end.map(|end| *end) {
        Some(ChunkEnd { stop_reason, model, usage }) => (stop_reason, model, Some(usage)),
        None => (None, None, None),
    };
    MessageChunkCame {
        node_id,
        run_id: place.run,
        chunk: said.chunk,
        is_last: said.is_last,
        meta: ChunkMeta {
            step: said.step,
            call: said.call,
            kind: chunk_kind(said.kind),
            broken_off: said.broken_off,
            finish_reason: stop_reason.map(finish_reason),
            model,
            usage: usage.map(Into::into),
        },
    }
}

/// What a call used.
pub(super) fn usage(used: ProviderUsage, node_id: String) -> ProviderWasUsed {
    ProviderWasUsed {
        node_id,
        provider: used.provider,
        model: used.model,
        step: used.step,
        input_tokens: used.input_tokens,
        output_tokens: used.output_tokens,
        cache_read_tokens: used.cached_tokens,
        reasoning_tokens: used.reasoning_tokens,
        cost_micros: used.cost_micros,
    }
}
