"""Pages and reports of audits."""
