"""Which audit a person means: its id, the beginning of it, or `latest`."""

from __future__ import annotations

from ksdp.audit.errors import StoreError
from ksdp.storage.audits.views import finished_views
from ksdp.storage.store import Store

LATEST = "latest"


def find_audit(store: Store, name: str) -> str:
    """The id of the finished audit, of one view or several, that a person named.

    Raises
    ------
    StoreError
        If there is none, or there are several that begin so.
    """
    known = list(dict.fromkeys([*finished_views(store), *store.audits()]))
    if name in known:
        return name
    if name == LATEST:
        if not known:
            raise StoreError(f"there is no finished audit in {store.root}.")
        files = {audit: store.audit(audit) / "audit.json" for audit in store.audits()}
        files |= {views: store.root / "views" / f"{views}.json" for views in finished_views(store)}
        return max(known, key=lambda audit: files[audit].stat().st_mtime)
    mine = [audit for audit in known if audit.startswith(name)] if name else []
    if len(mine) > 1:
        raise StoreError(f"several audits begin with {name!r}: {', '.join(sorted(mine))}.")
    if not mine:
        raise StoreError(
            f"there is no finished audit {name!r} in {store.root}; `ksdp list` shows those there are."
        )
    return mine[0]
