"""Public names of `import ksdp`, without a server."""
