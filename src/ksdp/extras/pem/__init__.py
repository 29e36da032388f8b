"""PEM among real parties: clients, servers and an aggregator, in processes of one machine or on several hosts."""
