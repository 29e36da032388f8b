"""Measure, document by document, what a private learning protocol gives away, before it is run.

The command is `ksdp`; in Python, `ksdp.flows.audits.run.run_audit` does what `ksdp audit` does.
"""
