"""The commands, by what a person wants to do; `ksdp.cli` names them."""
