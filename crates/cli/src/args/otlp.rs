//! Where traces are sent.

use clap::Args as ClapArgs;

/// Where traces are sent. The variables are OpenTelemetry's, of which those for traces win over those for everything;
/// headers are told in no other way, because they hold keys.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct OtlpArgs {
    /// Send traces to this collector, by OTLP over HTTP: http://localhost:4318
    /// [env: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT; headers: OTEL_EXPORTER_OTLP_HEADERS]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// How traces are written: http/json or http/protobuf [env: OTEL_EXPORTER_OTLP_PROTOCOL] [default: http/json]
    #[arg(long, value_name = "FORM")]
    pub(crate) otlp_protocol: Option<String>,
    /// What this server is called in traces [env: OTEL_SERVICE_NAME] [default: abide]
    #[arg(long, value_name = "NAME")]
    pub(crate) otlp_service_name: Option<String>,
}
