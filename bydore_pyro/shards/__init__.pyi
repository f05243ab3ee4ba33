from .places import names_shards as names_shards
from .store import open_shards as open_shards
