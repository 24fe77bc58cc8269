"""What runs Tidegauge beyond its code: the proxy, Prometheus and Grafana."""
