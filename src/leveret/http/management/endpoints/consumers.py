"""The endpoints about consumers."""

from __future__ import annotations

from typing import Final

from leveret.http.management.calls import ManagementCall, not_found
from leveret.http.management.clients import consumers_of
from leveret.http.management.listing import Described
from leveret.http.management.routes import lists

_ORDER: Final = ("channel_details.name", "consumer_tag")


@lists("/api/consumers", "management", _ORDER, in_vhost="management")
def list_consumers(call: ManagementCall) -> list[Described]:
    """List the consumers of a virtual host, or of all that the user sees."""
    name = call.values.get("vhost", "")
    if name in call.node.vhosts and not (call.is_tagged("monitoring") or call.may_see(name)):
        if call.compat.hides_vhosts:
            raise not_found()
        return []
    queues = [queue for vhost in call.vhosts() for queue in vhost.queues.values()]
    return [each for queue in queues for each in consumers_of(call, queue)]
