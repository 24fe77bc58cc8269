"""Where spans go; imported only when traces are wanted, with the extra `otel`."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def make_tracer_provider() -> TracerProvider:
    """Send spans in the background, as the environment variables ``OTEL_…`` say."""
    ours = Resource({"service.name": "tidegauge"})
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
