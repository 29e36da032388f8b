"""One module a page: a question in, a frozen view model out. No HTML and no SQL."""
