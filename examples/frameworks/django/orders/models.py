"""What the shop keeps in its database."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order of a customer."""

    number = models.IntegerField(unique=True)
    is_shipped = models.BooleanField(default=False)
