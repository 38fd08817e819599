"""The shop's web interface."""

from __future__ import annotations

from functools import partial

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse

from orders import messages
from orders.models import Order


def place_order(request: HttpRequest, number: int) -> HttpResponse:
    """Keep an order and announce it to the worker once it is committed."""
    try:
        with transaction.atomic():
            transaction.on_commit(partial(messages.announce, number))
            Order.objects.create(number=number)
    except IntegrityError:
        return HttpResponse(f"order {number} exists already", status=409)
    return HttpResponse(status=201)
