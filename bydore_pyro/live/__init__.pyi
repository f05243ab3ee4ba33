from .live_mixture import LiveMixture as LiveMixture
from .live_mixture import LiveRound as LiveRound
from .trainer import LiveCallback as LiveCallback
from .trainer import LiveDataset as LiveDataset
from .training import LiveTraining as LiveTraining
