"""The second main job: the flights in Kafka, and a broker of the demo's own."""
