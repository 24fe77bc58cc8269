"""The log that a query reads: embedded, or Kafka."""
