"""The settings of the shop. The broker's URL comes from the environment, like everything that differs by place."""

from __future__ import annotations

import os

AMQP_URL = os.environ["AMQP_URL"]
SECRET_KEY = os.environ.get("SECRET_KEY", "for development only")
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["orders"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "config.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
