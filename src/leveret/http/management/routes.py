"""The declaration of the management API's endpoints, beside the functions that answer them.

`who` says who may send the request. The documentation counts the recorded scenarios of each endpoint (see
docs/reference/management.md). What is the same for every endpoint is said here and in `management`: an answer of None
is 204, a list is sorted, paged and cut to the columns that the query asks for, and so is an object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from leveret.core.compat import ALL
from leveret.http.management.calls import Answer, ManagementCall, no_object
from leveret.http.management.listing import Described, chosen, listed

# Anyone, even without credentials; a user with any of the tags; one who may also open the virtual host of the path; the
# same, or one with the tag monitoring; one with the tag monitoring; one with the tag policymaker, who may also open the
# virtual host; the user of the path; the same, or one with the tag monitoring; an administrator. An administrator may
# always ask.
Who = Literal[
    "anyone", "management", "vhost", "visible", "monitoring", "policymaker", "self", "watched", "administrator"
]


class ManagementEndpoint(NamedTuple):
    """A method of a path."""

    method: str
    template: str
    who: Who
    answer: Answer
    # The versions of RabbitMQ that have it.
    versions: tuple[str, ...] = ALL
    # Whether HEAD is allowed where GET is.
    has_head: bool = True
    # Whether a body must be declared as JSON.
    needs_json: bool = False


# What the modules of `endpoints` have declared.
ENDPOINTS: Final[list[ManagementEndpoint]] = []
# What lists objects, and what describes one. Both run behind the barrier, under the broker's lock.
Listing = Callable[[ManagementCall], list[Described]]
Describing = Callable[[ManagementCall], Described]


def endpoint(
    method: str,
    template: str,
    who: Who,
    versions: tuple[str, ...] = ALL,
    **more: bool,
) -> Callable[[Answer], Answer]:
    """Declare that the decorated function answers a method of a path. `more` are other fields of the endpoint."""

    def declare(answer: Answer) -> Answer:
        ENDPOINTS.append(ManagementEndpoint(method, template, who, answer, versions, **more))
        return answer

    return declare


def lists(
    template: str,
    who: Who,
    by: tuple[str, ...] = ("vhost", "name"),
    versions: tuple[str, ...] = ALL,
    *,
    in_vhost: Who | None = None,
    one: tuple[str, Who] | None = None,
    paged: bool = False,
    **more: bool,
) -> Callable[[Listing], Listing]:
    """Declare that the decorated function lists the objects of a path, sorted by these keys without a query.

    `in_vhost` may list those of one virtual host. `one` is the path of one of them, which the function then lists
    alone, and who may ask for it.
    """

    def declare(listing: Listing) -> Listing:
        def answer(call: ManagementCall) -> object:
            with call.engine.looking():
                objects = listing(call)
            return listed(call, objects, by, paged=paged)

        endpoint("GET", template, who, versions, **more)(answer)
        if in_vhost is not None:
            endpoint("GET", f"{template}/{{vhost}}", in_vhost, versions, **more)(answer)
        if one is not None:
            path, asker = one
            describes(path, asker, versions, **more)(lambda call: only(listing(call)))
        return listing

    return declare


def only(objects: list[Described]) -> Described:
    """Return the first of the objects of a path. Raises RefusedCall if there is none."""
    for each in objects:
        return each
    raise no_object()


def describes(
    template: str, who: Who, versions: tuple[str, ...] = ALL, **more: bool
) -> Callable[[Describing], Describing]:
    """Declare that the decorated function describes the object of a path."""

    def declare(describing: Describing) -> Describing:
        def answer(call: ManagementCall) -> object:
            with call.engine.looking():
                return chosen(call, describing(call))

        endpoint("GET", template, who, versions, **more)(answer)
        return describing

    return declare
