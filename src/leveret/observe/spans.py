"""Spans of time, in words."""

from __future__ import annotations


def span_text(span_us: int) -> str:
    """A span of time in words: "350 ms", "2.1 s", "3 min 20 s"."""
    if span_us < 1_000_000:
        return f"{max(0, span_us) // 1000} ms"
    if span_us < 60_000_000:
        return f"{span_us / 1_000_000:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(span_us // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
