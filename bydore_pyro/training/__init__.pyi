from .config import TargetConfig as TargetConfig
from .mixture_batches import MixtureState as MixtureState
from .mixture_batches import begin as begin
from .mixture_batches import next_batch as next_batch
from .stages import read_stages as read_stages
from .training import train_target as train_target
