"""What can go wrong, for those who know the store and nothing below it."""

from ksdp.audit.errors import InputError, InvalidAudit, KsdpError, StaleDecision, StoreError

__all__ = ["InputError", "InvalidAudit", "KsdpError", "StaleDecision", "StoreError"]
