"""Users and permissions: what each user may do, and the refusals."""

from __future__ import annotations

import pytest

from leveret.core.model.errors import AccessRefused
from leveret.core.model.operators.access import Access
from leveret.core.protocol.rights import UserRights
from tests.model.world import World


def access_with(configure: str = "^$", write: str = "^$", read: str = "^$") -> Access:
    access = Access()
    access.set_user("u", "secret")
    access.set_permission("v", "u", configure=configure, write=write, read=read)
    return access


@pytest.fixture
def world() -> World:
    return World()


def rights_with(world: World, access: Access) -> UserRights:
    world.node.access = access
    return UserRights("u", world.node.add_vhost("v"))


def test_guest_may_do_everything_on_the_default_vhost() -> None:
    access = Access()

    assert access.users["guest"].tags == ("administrator",)
    assert all(access.may("guest", "/", "queue", "q", right) for right in ("configure", "write", "read"))


def test_guest_may_do_nothing_on_a_vhost_without_a_record() -> None:
    access = Access()

    assert not access.may_open("guest", "other")
    assert not access.may("guest", "other", "queue", "q", "read")


def test_a_permission_that_matches_nothing_still_opens_the_vhost() -> None:
    access = access_with()

    assert access.may_open("u", "v")
    assert not access.may("u", "v", "queue", "q", "read")


def test_each_right_has_its_own_pattern() -> None:
    access = access_with(configure="c", write="w", read="r")

    allowed = [
        name for name in "cwr" for right in ("configure", "write", "read") if access.may("u", "v", "queue", name, right)
    ]

    assert allowed == ["c", "w", "r"]


def test_a_pattern_is_searched_anywhere_in_the_name() -> None:
    assert access_with(read="p.q").may("u", "v", "queue", "xxp.qyy", "read")


def test_an_empty_pattern_matches_nothing() -> None:
    assert not access_with(configure="").may("u", "v", "queue", "q", "configure")


def test_the_default_exchange_is_checked_as_amq_default() -> None:
    access = access_with(write="^amq\\.default$")

    assert access.may("u", "v", "exchange", "", "write")


def test_revoking_full_permission_takes_effect() -> None:
    access = Access()

    access.set_permission("/", "guest", configure="^$")

    assert not access.may("guest", "/", "queue", "q", "configure")
    assert access.may("guest", "/", "queue", "q", "read")


@pytest.mark.parametrize(
    ("kind", "name", "right", "text"),
    [
        ("queue", "q", "configure", "configure access to queue 'q' in vhost 'v' refused for user 'u'"),
        ("exchange", "x", "write", "write access to exchange 'x' in vhost 'v' refused for user 'u'"),
        ("exchange", "", "write", "write access to exchange 'amq.default' in vhost 'v' refused for user 'u'"),
    ],
)
def test_a_missing_right_is_refused_by_name(world: World, kind: str, name: str, right: str, text: str) -> None:
    with pytest.raises(AccessRefused) as caught:
        rights_with(world, access_with()).require(right, kind, name)

    assert caught.value.reply_text == f"ACCESS_REFUSED - {text}"


def test_older_versions_do_not_name_the_right() -> None:
    with pytest.raises(AccessRefused) as caught:
        rights_with(World("3.10"), access_with()).require("read", "queue", "q")

    assert caught.value.explanation == "access to queue 'q' in vhost 'v' refused for user 'u'"


@pytest.mark.parametrize("right", ["configure", "write", "read"])
def test_any_right_is_enough_if_any_is_required(world: World, right: str) -> None:
    rights_with(world, access_with(**{right: ".*"})).require_any("queue", "q")


def test_without_any_right_the_refusal_names_configure(world: World) -> None:
    with pytest.raises(AccessRefused, match=r"^configure access to queue 'q'"):
        rights_with(world, access_with()).require_any("queue", "q")


def test_without_a_topic_permission_every_key_is_allowed(world: World) -> None:
    rights_with(world, access_with()).require_topic("write", "amq.topic", ("any",))


def test_a_topic_permission_narrows_one_exchange() -> None:
    access = access_with()
    access.set_topic_permission("v", "u", "amq.topic", write="^a", read="^b")

    assert access.may_use_topic("u", "v", "amq.topic", "a.1", "write")
    assert not access.may_use_topic("u", "v", "amq.topic", "b.1", "write")
    assert access.may_use_topic("u", "v", "amq.topic", "b.1", "read")
    assert access.may_use_topic("u", "v", "other", "b.1", "write")


def test_a_topic_refusal_names_the_key(world: World) -> None:
    access = access_with()
    access.set_topic_permission("v", "u", "amq.topic", write="^a", read="^a")

    with pytest.raises(AccessRefused) as caught:
        rights_with(world, access).require_topic("write", "amq.topic", ("b.1",))

    assert caught.value.explanation == (
        "write access to topic 'b.1' in exchange 'amq.topic' in vhost 'v' refused for user 'u'"
    )


@pytest.mark.parametrize(("key", "expected"), [("a.b-v", True), ("axb-v", False)])
def test_user_and_vhost_are_inserted_into_topic_patterns_literally(key: str, expected: bool) -> None:
    access = Access()
    access.set_user("a.b", "x")
    access.set_topic_permission("v", "a.b", "amq.topic", write="^{username}-{vhost}$", read="")

    assert access.may_use_topic("a.b", "v", "amq.topic", key, "write") is expected


@pytest.mark.parametrize("exchange", ["amq.topic", None])
def test_clearing_a_topic_permission_lifts_the_restriction(exchange: str | None) -> None:
    access = access_with()
    access.set_topic_permission("v", "u", "amq.topic", write="^$", read="^$")

    access.clear_topic_permission("v", "u", exchange)

    assert access.may_use_topic("u", "v", "amq.topic", "any", "write")


@pytest.mark.parametrize(
    ("user", "password", "expected"),
    [("u", "secret", True), ("u", "wrong", False), ("u", "", False), ("nobody", "secret", False)],
)
def test_a_user_logs_in_with_their_password(user: str, password: str, expected: bool) -> None:
    assert (access_with().authenticate(user, password) is not None) is expected


@pytest.mark.parametrize("password", ["", "x"])
def test_a_user_without_a_password_cannot_log_in(password: str) -> None:
    access = Access()
    access.set_user("silent")

    assert access.authenticate("silent", password) is None


def test_setting_a_user_again_keeps_the_limits() -> None:
    access = Access()
    access.users["guest"].limits["max-channels"] = 5

    user = access.set_user("guest", "new")

    assert (user.password, user.limit("max-channels")) == ("new", 5)


@pytest.mark.parametrize(("number", "expected"), [(5, 5), (0, 0), (-1, None)])
def test_a_negative_limit_means_unlimited(number: int, expected: int | None) -> None:
    user = Access().set_user("u")
    user.limits["max-connections"] = number

    assert user.limit("max-connections") == expected


def test_deleting_a_user_deletes_their_permissions() -> None:
    access = access_with(read=".*")
    access.set_topic_permission("v", "u", "amq.topic", write="", read="")

    access.delete_user("u")

    assert not access.may_open("u", "v")
    assert not access.topic_permissions


def test_deleting_a_vhost_deletes_its_permissions() -> None:
    access = access_with(read=".*")

    access.forget_vhost("v")

    assert not access.may_open("u", "v")
    assert access.may_open("guest", "/")
