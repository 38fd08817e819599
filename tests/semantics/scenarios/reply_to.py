"""Direct reply-to."""

from __future__ import annotations

from base64 import b64decode, b64encode

from ..client import Event
from ..scenario import Channel, Run, scenario

NAME = "amq.rabbitmq.reply-to"


def asked(s: Run, ch: Channel) -> Event:
    """Publish a request on ``ch`` and return it as the answering side gets it; its reply_to is the generated name."""
    answering = s.channel(5)
    answering.declare("requests")
    ch.publish("", "requests", "question", reply_to=NAME)
    answering.await_count("requests", 1)
    return answering.get("requests", no_ack=True)


def name_of(request: Event) -> str:
    reply_to = (request.properties or {})["reply_to"]
    assert isinstance(reply_to, bytes)
    return reply_to.decode()


@scenario
def a_request_and_its_replies(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "", no_ack=True)
    name = name_of(asked(s, ch))
    answering = s.channel()
    answering.publish("", name, "one", correlation_id="7")
    answering.publish("", name, "two", headers={"b": 1, "a": 2})

    ch.deliveries(2)


@scenario
def delivery_tags_of_replies_on_a_channel_that_also_gets(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "", no_ack=True)
    name = name_of(asked(s, ch))
    ch.declare("q")
    ch.fill("q", "1", "2", "3")
    ch.get("q")
    ch.get("q")
    answering = s.channel()
    for body in ("one", "two"):
        answering.publish("", name, body)
        ch.deliver()
    ch.get("q")
    answering.publish("", name, "three")

    ch.deliver()


@scenario
def the_key_of_the_name(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    ch.connection.log.hidden.add("basic.get-ok")
    name = name_of(asked(s, ch))

    ch.connection.log.write(1, f"{len(name.rsplit('.', 1)[1])} characters of key")


@scenario
def acknowledging_replies_is_refused(s: Run) -> None:
    s.channel().consume(NAME, "c")


@scenario
def one_reply_consumer_on_a_channel(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "one", no_ack=True)
    ch.consume(NAME, "two", no_ack=True)


@scenario
def the_order_of_checks_of_a_reply_consumer(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    ch.consume(NAME, "other")
    ch = s.channel()
    ch.declare("q")
    ch.consume("q", "used")
    ch.consume(NAME, "used")


@scenario
def a_request_without_a_reply_consumer(s: Run) -> None:
    ch = s.channel()
    ch.publish("", "anywhere", "x", reply_to=NAME)

    ch.receive()


@scenario
def the_bare_name_is_always_declared(s: Run) -> None:
    ch = s.channel()
    ch.passive(NAME)
    ch.declare(NAME)
    ch.delete(NAME)
    s.channel().purge(NAME)
    s.channel().get(NAME)
    s.channel().bind(NAME, "amq.direct", "k")


@scenario
def a_living_name_is_declared(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    other = s.channel()
    other.passive(name)
    other.declare(name)
    ch.cancel("c")
    ch.sync()

    other.passive(name)


@scenario
def a_channel_does_not_find_its_own_name(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)

    ch.passive(name_of(asked(s, ch)))


@scenario
def a_channel_does_not_find_its_own_process(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)

    ch.passive(f"{name_of(asked(s, ch))}~")


@scenario
def a_channel_does_not_find_the_name_that_it_cancelled(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    ch.cancel()

    ch.passive(name)


@scenario
def a_declared_name_is_the_queue_declared_last(s: Run) -> None:
    bare, living, ch = s.channel(on=s.connect()), s.channel(on=s.connect()), s.channel()
    bare.declare("q")
    bare.passive(NAME)
    bare.get("")
    ch.consume(NAME, "c", no_ack=True)
    living.connection.log.hidden.add("queue.declare-ok")
    living.passive(name_of(asked(s, ch)))
    living.get("")


@scenario
def consuming_from_the_bare_name_that_was_declared_last(s: Run) -> None:
    refused, ch = s.channel(), s.channel()
    for channel in (refused, ch):
        channel.passive(NAME)
    refused.consume("")
    ch.consume("", "c", no_ack=True)
    ch.publish("", name_of(asked(s, ch)), "reply")

    ch.deliver()


@scenario
def replies_in_transactions(s: Run) -> None:
    ch, replier = s.channel(), s.channel(on=s.connect())
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    replier.call("tx.select")
    for end in ("tx.rollback", "tx.commit"):
        replier.publish("", name, f"plain {end}")
        replier.publish("", name, f"mandatory {end}", mandatory=True)
        replier.sync()
        ch.sync()
        replier.call(end)
        replier.sync()
        ch.sync()


@scenario
def what_is_refused_to_a_living_name(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    s.channel().bind(name, "amq.direct", "k")
    s.channel().unbind(name, "amq.direct", "k")
    s.channel().consume(name, no_ack=True)
    s.channel().purge(name)
    s.channel(on=s.connect()).get(name)


@scenario(versions=("4.3",))
def a_malformed_name_is_refused(s: Run) -> None:
    s.channel().passive(NAME + ".nonsense")


@scenario
def names_that_were_never_generated(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    token = name.rpartition(".")[0]
    names = {
        "another key": f"{name[:-5]}AAAAA",
        "a key that is no base64": f"{name[:-5]}!!!!!",
        "a longer key": f"{name}A",
        "an empty key": f"{token}.",
        "no key": token,
        "a broken channel": f"{name[:25]}!{name[26:]}",
        "nonsense": f"{NAME}.nonsense",
        "nonsense with a key": f"{NAME}.nonsense.key",
        "nothing": f"{NAME}.",
    }
    for words, wrong in names.items():
        connection = s.connect()
        connection.log.hidden |= {"channel.close", "connection.close"}
        answer = s.channel(on=connection).passive(wrong)
        code = answer.fields.get("reply_code", "")
        connection.log.write(1, f"{words}: {answer.name} {code}")


def altered(token: str, at: int, octets: bytes) -> str:
    """Replace bytes of the process that a generated name holds."""
    process = bytearray(b64decode(token))
    process[at : at + len(octets)] = octets
    return b64encode(process).decode()


@scenario
def names_whose_process_was_altered(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    ch.connection.log.hidden.add("basic.get-ok")
    token, _, key = name_of(asked(s, ch)).removeprefix(f"{NAME}.").partition(".")
    tokens = {
        "another format": altered(token, 0, b"\0"),
        "no process": altered(token, 1, b"\0"),
        "a longer node": altered(token, 3, b"\1"),
        "a node without a host": altered(token, 10, b"x"),
        "another node": altered(token, 11, b"x"),
        "another start of the node": altered(token, 26, b"\0\0\0\0"),
        "four characters more": f"{token}AAAA",
        "something else": b64encode(b"hello").decode(),
        "nothing": "",
    }
    if s.version == "4.3":
        # Whether a process exists is a matter of chance on older versions.
        tokens |= {
            "no name of a node": altered(token, 2, b"\0"),
            "another name of the node": altered(token, 5, b"x"),
            "another process": altered(token, 18, b"\1\1\1\1\1\1\1\1"),
            "four characters less": token[:-4],
        }
    for words, wrong in tokens.items():
        connection = s.connect()
        connection.log.hidden |= {"channel.close", "connection.close"}
        answer = s.channel(on=connection).passive(f"{NAME}.{wrong}.{key}")
        code = answer.fields.get("reply_code", "")
        connection.log.write(1, f"{words}: {answer.name} {code}")


@scenario
def replies_after_cancel_vanish(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    ch.cancel("c")
    answering = s.channel()
    answering.publish("", name, "late")
    answering.sync()

    ch.sync()


@scenario
def mandatory_replies(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    answering = s.channel()
    answering.confirm_select()
    answering.publish("", name, "living", mandatory=True)
    ch.deliver()
    answering.confirms()
    ch.close()
    answering.publish("", name, "gone", mandatory=True)

    answering.confirms()


@scenario
def replies_with_copies_that_must_arrive(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    ch.declare("copies")
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    answering = s.channel(on=s.connect())
    answering.confirm_select()
    for key, copy in ((name, "copies"), (name, "full"), (name, "missing"), ("full", name), ("missing", name)):
        answering.publish("", key, "m", mandatory=True, headers={"CC": [copy]})
        answering.confirms()
        ch.deliver()


@scenario(versions=("4.0", "3.10"))
def a_mandatory_reply_is_returned_before_its_requester_gets_it(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    ch.publish("", name, "own", mandatory=True)

    ch.deliver()


@scenario
def malformed_names_are_no_route(s: Run) -> None:
    ch = s.channel()
    for name in (NAME, NAME + ".nonsense", NAME + "."):
        ch.publish("", name, "x", mandatory=True)
        ch.receive("basic.return")


@scenario
def a_reply_by_cc(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, ch))
    s.channel().publish("", "elsewhere", "x", headers={"CC": [name]})

    ch.deliver()


@scenario
def a_new_consumer_has_a_new_name(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    first = name_of(asked(s, ch))
    ch.cancel("c")
    ch.consume(NAME, "c", no_ack=True)
    ch.publish("", "requests", "question", reply_to=NAME)
    answering = s.channel()
    answering.await_count("requests", 1)
    second = name_of(answering.get("requests", no_ack=True))

    ch.connection.log.write(1, f"the same name: {first == second}")


@scenario
def other_reply_to_values_are_left_alone(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", reply_to="amq.gen-mine")
    ch.fill("q", "2", reply_to=NAME + "x")

    ch.get_all("q")


def requester(s: Run) -> tuple[Channel, str]:
    """Return a channel that takes direct replies, and its name."""
    ch = s.channel()
    ch.consume(NAME, "c", no_ack=True)
    return ch, name_of(asked(s, ch))


def hears(s: Run, ch: Channel, *, is_lost: bool) -> None:
    """Wait for the reply, or show that none comes."""
    if is_lost:
        s.elapse(500)
        ch.sync()
    else:
        ch.deliver()


def letters_to(name: str, **arguments: object) -> dict[str, object]:
    """Return the arguments of a queue whose dead letters go to this name."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name, **arguments}


@scenario
def a_rejected_message_becomes_a_reply(s: Run) -> None:
    ch, name = requester(s)
    for kind in ("classic", "quorum"):
        dying = s.channel()
        dying.declare(kind, arguments=letters_to(name, **{"x-queue-type": kind}))
        dying.fill(kind, f"rejected by {kind}")
        dying.reject(dying.get(kind), requeue=False)
        hears(s, ch, is_lost=s.version == "4.0")


@scenario
def an_expired_message_becomes_a_reply(s: Run) -> None:
    ch, name = requester(s)
    for kind in ("classic", "quorum"):
        dying = s.channel()
        dying.declare(kind, arguments=letters_to(name, **{"x-queue-type": kind, "x-message-ttl": 50}))
        dying.publish("", kind, f"expired in {kind}")
        dying.sync()
        s.elapse(500)
        hears(s, ch, is_lost=s.version == "4.0")


@scenario
def a_message_dropped_by_length_becomes_a_reply(s: Run) -> None:
    ch, name = requester(s)
    for kind in ("classic", "quorum"):
        dying = s.channel()
        dying.declare(kind, arguments=letters_to(name, **{"x-queue-type": kind, "x-max-length": 1}))
        dying.fill(kind, "1")
        dying.publish("", kind, "2")
        hears(s, ch, is_lost=s.version == "4.0")


@scenario
def a_refused_message_becomes_a_reply(s: Run) -> None:
    ch, name = requester(s)
    dying = s.channel()
    dying.declare("q", arguments=letters_to(name, **{"x-max-length": 1, "x-overflow": "reject-publish-dlx"}))
    dying.fill("q", "1")
    dying.confirm_select()
    dying.publish("", "q", "2")
    dying.confirms()
    hears(s, ch, is_lost=s.version == "4.0")


@scenario
def a_message_delivered_too_often_becomes_a_reply(s: Run) -> None:
    ch, name = requester(s)
    dying = s.channel()
    dying.declare("q", arguments=letters_to(name, **{"x-queue-type": "quorum", "x-delivery-limit": 0}))
    dying.fill("q", "1")
    dying.reject(dying.get("q"), requeue=True)
    hears(s, ch, is_lost=s.version == "4.0")


@scenario
def a_letter_of_at_least_once_becomes_a_reply(s: Run) -> None:
    ch, name = requester(s)
    dying = s.channel()
    more = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    dying.declare("q", arguments=letters_to(name, **more))
    dying.fill("q", "1")
    dying.reject(dying.get("q"), requeue=False)
    hears(s, ch, is_lost=s.version == "4.0")


@scenario
def a_letter_whose_cc_names_the_requester(s: Run) -> None:
    ch, name = requester(s)
    dying = s.channel()
    dying.declare("q", arguments={"x-dead-letter-exchange": ""})
    dying.declare("next")
    dying.bind("q", "amq.fanout")
    dying.publish("amq.fanout", "next", "x", headers={"CC": [name]})
    dying.await_count("q", 1)
    dying.reject(dying.get("q"), requeue=False)
    dying.await_count("next", 1)
    hears(s, ch, is_lost=s.version == "4.0")
    dying.get_all("next")


@scenario
def a_letter_to_a_requester_that_has_gone(s: Run) -> None:
    ch, name = requester(s)
    ch.cancel("c")
    dying = s.channel()
    dying.declare("q", arguments=letters_to(name))
    dying.fill("q", "1")
    dying.reject(dying.get("q"), requeue=False)
    hears(s, ch, is_lost=True)


def with_another_key(name: str) -> str:
    return f"{name[:-5]}AAAAA"


@scenario
def get_from_a_name_with_another_key(s: Run) -> None:
    _, name = requester(s)
    s.channel(on=s.connect()).get(with_another_key(name))


@scenario
def consuming_from_a_name_with_another_key(s: Run) -> None:
    _, name = requester(s)
    s.channel().consume(with_another_key(name), no_ack=True)
    s.channel().consume(with_another_key(name))


@scenario
def purging_and_deleting_a_name_with_another_key(s: Run) -> None:
    _, name = requester(s)
    s.channel().purge(with_another_key(name))
    s.channel().delete(with_another_key(name))


@scenario
def binding_a_name_with_another_key(s: Run) -> None:
    _, name = requester(s)
    s.channel().bind(with_another_key(name), "amq.direct", "k")
    s.channel().unbind(with_another_key(name), "amq.direct", "k")


@scenario
def publishing_to_a_name_with_another_key(s: Run) -> None:
    ch, name = requester(s)
    answering = s.channel()
    answering.publish("", with_another_key(name), "plain", mandatory=True)
    answering.sync()
    answering.confirm_select()
    answering.publish("", with_another_key(name), "in confirm mode", mandatory=True)
    answering.confirms()
    ch.sync()
    answering = s.channel(on=s.connect())
    answering.tx_select()
    answering.publish("", with_another_key(name), "in a transaction", mandatory=True)
    answering.commit()
    ch.sync()


@scenario
def declaring_a_name_with_another_key(s: Run) -> None:
    _, name = requester(s)
    s.channel().passive(with_another_key(name))
    s.channel().declare(with_another_key(name))


@scenario
def a_requester_uses_its_own_name(s: Run) -> None:
    ch, name = requester(s)
    ch.publish("", name, "to itself")
    ch.deliver()
    ch.consume(name, "d", no_ack=True)


@scenario
def a_requester_answers_itself_with_confirms(s: Run) -> None:
    ch = s.channel()
    ch.consume(NAME, "", no_ack=True)
    name = name_of(asked(s, ch))
    ch.confirm_select(gathered=False)
    ch.publish("", name, "reply")

    ch.deliver()
    ch.receive_confirm()


@scenario
def a_requester_that_has_gone_is_still_a_name(s: Run) -> None:
    ch, name = requester(s)
    ch.cancel("c")
    s.channel().purge(name)
    s.channel().consume(name, no_ack=True)
    s.channel(on=s.connect()).get(name)


@scenario
def purging_and_getting_from_names_that_were_never_generated(s: Run) -> None:
    _, name = requester(s)
    for words, wrong in {
        "no key": name.rpartition(".")[0],
        "an empty key": f"{name.rpartition('.')[0]}.",
        "nonsense with a key": f"{NAME}.nonsense.key",
        "nonsense": f"{NAME}.nonsense",
    }.items():
        for method in ("queue.purge", "basic.get", "basic.consume"):
            connection = s.connect()
            connection.log.hidden |= {"channel.close", "connection.close"}
            fields = {"consumer_tag": "c", "no_ack": True} if method == "basic.consume" else {}
            answer = s.channel(on=connection).call(method, queue=wrong, **fields)
            connection.log.write(1, f"{method} {words}: {answer.name} {answer.fields.get('reply_code', '')}")
