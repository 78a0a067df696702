//! Where traces are sent: flags, the variables that OpenTelemetry has for it, and the file.

use abide_server::{OtlpEndpoint, OtlpProtocol, OtlpSettings};
use anyhow::Context;

use crate::args::OtlpArgs;

/// What the server is called in traces, if nobody says.
const SERVICE_NAME: &str = "abide";

/// What the file says of it.
pub(super) struct FileOtlp {
    pub(super) endpoint: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) service_name: Option<String>,
}

/// Flags over the environment over the file. In the environment, what is said of traces wins over what is said of
/// everything, and what is empty counts as not said. Nothing is sent if nobody says where.
pub(super) fn resolve(
    args: OtlpArgs,
    file: FileOtlp,
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Option<OtlpSettings>> {
    let said = |value: Option<String>| value.filter(|text| !text.is_empty());
    let variable = |name: &str| said(environment(name));
    let either = |kind: &str| {
        variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{kind}"))
            .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{kind}")))
    };
    let endpoint = said(args.otlp_endpoint).map(OtlpEndpoint::Base);
    let endpoint =
        endpoint.or_else(|| variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(OtlpEndpoint::Traces));
    let endpoint = endpoint.or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(OtlpEndpoint::Base));
    let Some(endpoint) = endpoint.or_else(|| said(file.endpoint).map(OtlpEndpoint::Base)) else {
        return Ok(None);
    };
    endpoint.url().map_err(|error| anyhow::anyhow!("{error}")).context(match endpoint {
        OtlpEndpoint::Base(_) => "--otlp-endpoint",
        OtlpEndpoint::Traces(_) => "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    })?;
    let protocol = said(args.otlp_protocol).or_else(|| either("PROTOCOL")).or_else(|| said(file.protocol));
    let protocol = protocol.as_deref().map(str::parse::<OtlpProtocol>).transpose();
    let service_name = said(args.otlp_service_name)
        .or_else(|| variable("OTEL_SERVICE_NAME"))
        .or_else(|| said(file.service_name));
    Ok(Some(OtlpSettings {
        endpoint,
        headers: either("HEADERS"),
        service_name: service_name.unwrap_or_else(|| SERVICE_NAME.to_owned()),
        protocol: protocol.map_err(|error| anyhow::anyhow!("--otlp-protocol: {error}"))?.unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: FileOtlp = FileOtlp { endpoint: None, protocol: None, service_name: None };

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn file() -> FileOtlp {
        FileOtlp {
            endpoint: text("http://file:1"),
            protocol: text("http/protobuf"),
            service_name: text("from-file"),
        }
    }

    /// What holds with these variables.
    fn with(
        args: OtlpArgs,
        file: FileOtlp,
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Option<OtlpSettings>> {
        let look =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        resolve(args, file, look)
    }

    fn url(settings: Option<OtlpSettings>) -> String {
        settings.unwrap().endpoint.url().unwrap().to_string()
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:1");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:1/intake");
        let flag = OtlpArgs { otlp_endpoint: text("http://flag:1"), ..OtlpArgs::default() };
        let resolved = |args: &OtlpArgs, file: FileOtlp, variables: &[(&str, &str)]| {
            url(with(args.clone(), file, variables).unwrap())
        };
        let none = OtlpArgs::default();
        assert_eq!(resolved(&flag, file(), &[general, traces]), "http://flag:1/v1/traces");
        assert_eq!(resolved(&none, file(), &[general, traces]), "http://traces:1/intake");
        assert_eq!(resolved(&none, file(), &[general]), "http://general:1/v1/traces");
        assert_eq!(
            resolved(&none, file(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]),
            "http://file:1/v1/traces"
        );
        assert!(with(none, NOTHING, &[]).unwrap().is_none());
    }

    #[test]
    fn the_name_the_headers_and_the_form_are_told_in_the_same_ways() {
        let told = with(OtlpArgs::default(), file(), &[]).unwrap().unwrap();
        assert_eq!((told.service_name.as_str(), told.protocol), ("from-file", OtlpProtocol::Protobuf));
        let variables = [
            ("OTEL_SERVICE_NAME", "from-env"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"),
        ];
        let told = with(OtlpArgs::default(), file(), &variables).unwrap().unwrap();
        assert_eq!((told.service_name.as_str(), told.protocol), ("from-env", OtlpProtocol::Json));
        assert_eq!(told.headers.as_deref(), Some("b=2"));
        let args = OtlpArgs { otlp_service_name: text("from-flag"), ..OtlpArgs::default() };
        assert_eq!(with(args, file(), &variables).unwrap().unwrap().service_name, "from-flag");
        let alone = FileOtlp { endpoint: text("http://file:1"), ..NOTHING };
        assert_eq!(with(OtlpArgs::default(), alone, &[]).unwrap().unwrap().service_name, "abide");
    }

    #[test]
    fn what_can_not_be_is_refused_by_name_and_nothing_is_asked_of_who_sends_nothing() {
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let told = format!(
            "{:#}",
            with(OtlpArgs::default(), FileOtlp { protocol: None, ..file() }, &[grpc]).unwrap_err()
        );
        assert!(told.contains("--otlp-protocol") && told.contains("4318"), "{told}");
        assert!(with(OtlpArgs::default(), NOTHING, &[grpc]).unwrap().is_none());
        let wrong = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318");
        let told = format!("{:#}", with(OtlpArgs::default(), file(), &[wrong]).unwrap_err());
        assert!(told.contains("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "), "{told}");
    }
}
