"""Products by one thread, and by as many as before afterwards."""

from __future__ import annotations

from threadpoolctl import threadpool_info, threadpool_limits

from ksdp.audit.one_thread import one_thread


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_products_are_by_one_thread_and_then_as_before() -> None:
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        with one_thread():
            assert threads() == {1}
            with one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
