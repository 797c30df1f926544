"""The tables and figures of the paper and our own: what they need, how they are built, and the report of all of them.

An item is one `Item` in the `ITEMS` of the module that builds it (`MODULES` in `items`).
"""

from gvfx.reproduce.base import Build as Build
from gvfx.reproduce.base import Item as Item
from gvfx.reproduce.base import build as build
from gvfx.reproduce.items import ITEMS as ITEMS
from gvfx.reproduce.items import chosen_items as chosen_items
from gvfx.reproduce.items import curves_with_seeds as curves_with_seeds
from gvfx.reproduce.source import Source as Source
