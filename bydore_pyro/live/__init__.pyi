from .live_mixture import LiveMixture as LiveMixture
from .live_mixture import LiveRound as LiveRound
