"""What `import ksdp` offers: the names in `ksdp.__all__`, without a server."""
