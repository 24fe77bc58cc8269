"""The examples for orchestrators under the real ones; ``make test-orchestrators`` runs them."""
