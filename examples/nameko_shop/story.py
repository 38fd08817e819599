"""services of nameko place an order: one asks another by RPC, and an event goes to a third"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from examples.telling import print_messages
from leveret import Broker

# eventlet patches a whole process, so the services get one of their own.
_PROGRAM = "import eventlet; eventlet.monkey_patch(); from examples.nameko_shop.story import sell; sell()"


def tell() -> None:
    """Place one order."""
    if find_spec("nameko") is None:
        print("  skipped: needs nameko, pip install nameko")
        return
    sys.stdout.flush()
    # eventlet warns on import that it is deprecated.
    subprocess.run([sys.executable, "-W", "ignore", "-c", _PROGRAM], check=True)


def sell() -> None:
    """Run the services in green threads of this process, and place the order."""
    from nameko.runners import ServiceRunner
    from nameko.standalone.rpc import ClusterRpcProxy

    from examples.nameko_shop.shop import Mails, Orders, Prices

    with Broker() as broker:
        config = {"AMQP_URI": broker.url}
        runner = ServiceRunner(config)
        for service in (Prices, Orders, Mails):
            runner.add_service(service)
        runner.start()
        with ClusterRpcProxy(config, timeout=10) as shop:
            print(f"  the order costs {shop.orders.place('tea', 3)}")
        broker.wait_idle()
        runner.kill()
        print_messages(broker)
