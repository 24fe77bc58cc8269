"""Where spans go; imported only when traces are wanted, with the extra `otel`."""

import logging
from threading import Thread

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from controller.access.tokens import redacted

_QUERY = "url.query"
_PATIENCE_S = 1.0  # the process has to end soon, whatever becomes of traces
_log = logging.getLogger(__name__)


class _WithoutTokens(SpanProcessor):
    """Keeps a token that somebody sent as a parameter out of the spans."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Replace the tokens in the parameters of the call that begins."""
        query = (span.attributes or {}).get(_QUERY)
        if isinstance(query, str):
            span.set_attribute(_QUERY, redacted(query))


class Traces:
    """Sends spans in the background, as the environment variables ``OTEL_…`` say."""

    def __init__(self) -> None:
        ours = Resource({"service.name": "tidegauge"})
        self.provider = TracerProvider(
            resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        self.provider.add_span_processor(_WithoutTokens())
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    def end(self) -> None:
        """Send what is left; give up what the collector does not take soon."""
        # A daemon, since it may try for half a minute, and nothing cuts it off.
        sending = Thread(target=self.provider.shutdown, daemon=True)
        sending.start()
        sending.join(_PATIENCE_S)
        if sending.is_alive():
            _log.warning("the last traces are given up: the collector does not take them")
            logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
