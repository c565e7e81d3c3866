"""Reads what TensorBoardWriter.EveryKind writes with TensorBoard's own reader.

    python read_tensorboard.py UTILS_TEST_EXECUTABLE

Ends with status 77, which counts as skipped, where Python has no tensorboard.
"""

import math
import os
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"SKIPPED: TensorBoard's reader isn't there ({error}); pip install tensorboard")
    sys.exit(77)


def pixels(png):
    """The rows of an uncompressed or compressed PNG whose rows aren't filtered, with every checksum looked at."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        (size,) = struct.unpack(">I", png[at:at + 4])
        kind, body = png[at + 4:at + 8], png[at + 8:at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body), kind
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    assert kind == b"IEND" and depth == 8
    row = width * {0: 1, 2: 3, 6: 4}[color]
    raw = zlib.decompress(data)
    assert len(raw) == (row + 1) * height
    return [list(raw[y * (row + 1) + 1:(y + 1) * (row + 1)]) for y in range(height)]


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], "--gtest_filter=TensorBoardWriter.EveryKind"], check=True,
                   env={**os.environ, "INFINI_TRAIN_TEST_OUTPUT": folder})
    board = EventAccumulator(folder, size_guidance={"tensors": 0, "scalars": 0, "histograms": 0, "images": 0})
    board.Reload()

    tags = board.Tags()
    assert tags["scalars"] == ["loss/train"], tags
    assert sorted(tags["histograms"]) == ["constant", "values", "zeros"], tags
    scalars = board.Scalars("loss/train")
    assert [s.step for s in scalars] == [0, 1, 2]
    assert all(math.isclose(s.value, 1 / (1 + s.step), rel_tol=1e-6) for s in scalars)

    (event,) = board.Histograms("values")
    h = event.histogram_value
    assert event.step == 5 and (h.min, h.max, h.num) == (-2, 8, 6), h
    assert math.isclose(h.sum, 7.5) and math.isclose(h.sum_squares, 69.25), h
    assert sum(h.bucket) == 6 and list(h.bucket_limit) == sorted(set(h.bucket_limit)), h
    edges = [h.min] + list(h.bucket_limit)
    for value, count in {-2: 1, 0: 2, 0.5: 1, 1: 1, 8: 1}.items():
        inside = [n for left, right, n in zip(edges, edges[1:], h.bucket) if left <= value < right]
        assert inside == [count], (value, inside)
    for tag, value, count in (("constant", 3, 10), ("zeros", 0, 4)):
        (event,) = board.Histograms(tag)
        assert (event.histogram_value.min, event.histogram_value.max) == (value, value)
        assert sum(event.histogram_value.bucket) == count

    assert board.Tensors("note")[0].tensor_proto.string_val[0] == b"plain text"
    (grey,) = board.Images("grey")
    assert (grey.width, grey.height) == (3, 2)
    assert pixels(grey.encoded_image_string) == [[0, 50, 100], [150, 200, 250]]
    (color,) = board.Images("color")
    assert pixels(color.encoded_image_string) == [[255, 128, 255, 0, 0, 0]]
print("TensorBoard reads what was written")
