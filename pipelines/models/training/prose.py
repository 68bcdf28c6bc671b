#!/usr/bin/env python3
"""Read the prose of the second mode: Jane Austen's six novels, from Debian's r-cran-janeaustenr.

  prose.py FILE [--root DIR]     writes one paragraph a line

Why: the texts are in the public domain and the package is in every Debian mirror. R is not needed: the
package's data base is a row of zlib streams, and the novels are string vectors in R's XDR form.
DIR is where the package lies: / when installed, or a folder made by `dpkg-deb -x`.
"""

import argparse
import pathlib
import re
import struct
import zlib

DATABASE = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
STRING_VECTOR, STRING = 16, 9
FEWEST_LINES = 1000
PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "—": "-", "–": "-", "_": ""})


def streams(data):
    """Every object of the data base, decompressed: each is a length (4 bytes) and a zlib stream."""
    at = 0
    while at < len(data):
        reader = zlib.decompressobj()
        yield reader.decompress(data[at + 4:])
        at = len(data) - len(reader.unused_data)


def lines(blob):
    """The strings of the first string vector in an R object."""
    at = blob.find(struct.pack(">I", STRING_VECTOR))
    at += 8
    found = []
    while at + 8 <= len(blob):
        flags, size = struct.unpack_from(">Ii", blob, at)
        if flags & 0xff != STRING or size < 0:
            break
        found.append(blob[at + 8:at + 8 + size].decode("utf-8"))
        at += 8 + size
    return found


def paragraphs(book):
    """Running text only: no chapter headings, no title pages."""
    for block in re.split(r"\n\s*\n", "\n".join(book)):
        text = re.sub(r"\s+", " ", block.translate(PLAIN).replace("--", " - ")).strip()
        if len(text) >= 25 and sum(c.islower() for c in text) > 0.55 * len(text):
            yield text.encode("ascii", "ignore").decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default="/")
    args = parser.parse_args()
    database = args.root / DATABASE
    if not database.exists():
        raise SystemExit(f"prose.py: no {database}: install r-cran-janeaustenr, or unpack it and give --root")
    books = [book for book in map(lines, streams(database.read_bytes())) if len(book) >= FEWEST_LINES]
    with args.file.open("w") as out:
        out.writelines(text + "\n" for book in books for text in paragraphs(book))


if __name__ == "__main__":
    main()
