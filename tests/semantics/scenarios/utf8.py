"""Names that are UTF-8, nearly so, or not at all."""

from __future__ import annotations

from ..scenario import Run, scenario

SURROGATE = b"\xed\xa0\x80"
BEYOND = b"\xf4\x90\x80\x80"
OCTETS = {
    "empty": b"",
    "a null": b"\0",
    "the last of two octets": b"\xdf\xbf",
    "the first of three octets": b"\xe0\xa0\x80",
    "before the surrogates": b"\xed\x9f\xbf",
    "the first surrogate": SURROGATE,
    "the last surrogate": b"\xed\xbf\xbf",
    "a pair of surrogates": b"\xed\xa0\xbd\xed\xb8\x80",
    "after the surrogates": b"\xee\x80\x80",
    "no characters": b"\xef\xb7\x90\xef\xbf\xbe\xef\xbf\xbf",
    "the first of four octets": b"\xf0\x90\x80\x80",
    "the last character": b"\xf4\x8f\xbf\xbf",
    "the first beyond": BEYOND,
    "f5": b"\xf5\x80\x80\x80",
    "the last of four octets": b"\xf7\xbf\xbf\xbf",
    "five octets": b"\xf8\x88\x80\x80\x80",
    "six octets": b"\xfc\x84\x80\x80\x80\x80",
    "fe": b"\xfe",
    "ff": b"\xff",
    "a null in two octets": b"\xc0\x80",
    "ascii in two octets": b"\xc1\xbf",
    "two octets as three": b"\xe0\x9f\xbf",
    "three octets as four": b"\xf0\x8f\xbf\xbf",
    "continuation first": b"\x80",
    "two octets cut short": b"\xc3",
    "three octets cut short": b"\xe2\x82",
    "four octets cut short": b"\xf0\x9f\x92",
    "four octets beyond cut short": b"\xf4\x90\x80",
    "a surrogate cut short": b"\xed\xa0",
    "a surrogate with a letter": b"\xed\xa0a",
    "a surrogate between letters": b"a\xed\xa0\x80b",
    "a surrogate, then an octet": b"\xed\xa0\x80\xff",
}


@scenario
def which_octets_a_name_may_have(s: Run) -> None:
    for words, octets in OCTETS.items():
        connection = s.connect()
        ch = s.channel(on=connection)
        connection.log.hidden |= {"connection.close", "channel.close", "queue.unbind-ok"}
        answer = ch.call("queue.unbind", queue="q", exchange=b"x" + octets, routing_key="k")
        connection.log.write(0, f"{words}: {answer.name} {answer.fields.get('reply_code', '')}")


@scenario(versions=("4.0", "3.10"))
def names_with_surrogates_and_beyond_unicode(s: Run) -> None:
    ch = s.channel()
    for octets in (SURROGATE, BEYOND):
        name = b"n" + octets
        ch.declare(name)
        ch.declare_exchange(name, "fanout")
        ch.call("queue.bind", queue=name, exchange=name, routing_key=octets)
        ch.publish(name, octets, "x")
        ch.consume(name, octets, no_ack=True)  # type: ignore[arg-type]
        ch.deliver()
        ch.cancel(octets)  # type: ignore[arg-type]
        ch.declare(name, arguments={"x-max-length": 1})
        ch = s.channel(ch.number + 1)


@scenario(versions=("4.0", "3.10"))
def refusals_that_show_a_name_with_a_surrogate(s: Run) -> None:
    for octets in (SURROGATE, BEYOND, "ä".encode() + SURROGATE):
        s.channel().call("queue.declare", queue=octets, passive=True)
        s.channel().call("exchange.declare", exchange=octets, passive=True)


@scenario
def texts_of_the_connection_with_a_surrogate(s: Run) -> None:
    for name, fields in (
        ("connection.update-secret", {"new_secret": "x", "reason": SURROGATE}),
        ("connection.close", {"reply_code": 200, "reply_text": SURROGATE}),
        ("connection.open", {"virtual_host": SURROGATE}),
    ):
        connection = s.connect()
        connection.call(name, f"{name}-ok", **fields)


@scenario
def methods_of_a_server_with_a_surrogate(s: Run) -> None:
    for number in (0, 1):
        for octets in (SURROGATE, b"\xff"):
            ch = s.channel(1, on=s.connect())
            ch.connection.send(number, "queue.declare-ok", queue=octets)
            ch.connection.take(0, "connection.close")


@scenario
def words_of_arguments_that_are_not_utf8(s: Run) -> None:
    for octets in (b"\xff", "ä".encode(), "ä".encode() + b"\xff"):
        for name in ("x-queue-type", "x-queue-mode", "x-overflow"):
            s.channel().declare("q", durable=True, arguments={name: octets})
        s.channel().delete("q")
