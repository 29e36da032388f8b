"""PEM's parties: clients, servers, aggregator."""
