"""Errors for those who know the store and nothing below it."""

from ksdp.audit.errors import ClearanceError as ClearanceError
from ksdp.audit.errors import InputError as InputError
from ksdp.audit.errors import InvalidAudit as InvalidAudit
from ksdp.audit.errors import KsdpError as KsdpError
from ksdp.audit.errors import StoreError as StoreError
from ksdp.audit.reviewing import StaleDecision as StaleDecision
