//! `abide bench`: placeholder.
use crate::args::BenchArgs;
pub(crate) async fn dispatch(_: BenchArgs) -> anyhow::Result<()> {
    Ok(())
}
