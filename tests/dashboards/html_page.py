"""A page of HTML, read back as a browser would."""

from html.parser import HTMLParser

VOID_ELEMENTS = {"meta", "link", "br", "wbr"}


class HtmlPage(HTMLParser):
    """Elements with attributes and the text inside, and proof that tags are balanced."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}, []))
        if tag not in VOID_ELEMENTS:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for at in self._open:
            self.elements[at][2].append(data)

    def all(self, tag: str, **attributes: str) -> list[tuple[dict[str, str], str]]:
        return [
            (attrs, " ".join("".join(text).split()))
            for name, attrs, text in self.elements
            if name == tag and all(attrs.get(k.rstrip("_")) == v for k, v in attributes.items())
        ]

    def text(self) -> str:
        return self.all("body")[0][1]

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _, _ in self.elements]

    @property
    def attributes(self) -> list[tuple[str, str]]:
        return [attribute for _, attrs, _ in self.elements for attribute in attrs.items()]
